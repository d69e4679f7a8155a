#!/bin/bash
# The engine against the binding on soft-RoCE: interleaved pairs in one boot (PAIRS, default 7), medians as ratios, inline
# and dedicated. Prints the table and writes it, with the runs that it comes from, to testdata/bench/engine-rxe/.
#
# Both sides: two processes, one connection, the same sizes and as many writes in flight; the engine's ends are whole engines.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
pairs=${PAIRS:-7}

work=$(mktemp -d "${TMPDIR:-/tmp}/weft-bench-engine.XXXXXX")
trap 'rm -rf "$work"' EXIT
go test -c -tags nosymbolizer -o "$work/verbsrail.test" ./transferengine/verbsrail

cat >"$work/inside.sh" <<'INSIDE'
set -euo pipefail
work=$1 pairs=$2
cd transferengine/verbsrail
# run NAME SIDE BENCHMARK TIMES: one run; says SIDE, NAME and the benchmark's own metric.
run() {
  local value
  value=$("$work/verbsrail.test" -test.run '^$' -test.bench "$3" -test.benchtime "$4x" |
    awk '/^Benchmark/ {for (i = 3; i < NF; i++) if ($(i+1) == "MB/s" || $(i+1) == "us/one-way") print $i}')
  echo "$2 $1 $value"
}
for _ in $(seq "$pairs"); do
  for side in binding inline dedicated; do
    run bandwidth_64KiB_MB/s $side "EngineWrite/size=65536/$side\$" 500
    run bandwidth_1MiB_MB/s $side "EngineWrite/size=1048576/$side\$" 50
    # A dedicated engine takes ten times as long here.
    run latency_imm_8B_us $side "EnginePingPong/$side\$" $([ $side = dedicated ] && echo 2000 || echo 20000)
  done
done
INSIDE

"$here/run.sh" --time "$("$here/../../scripts/scaled.sh" $((60 * pairs + 60)))" bash "$work/inside.sh" "$work" "$pairs" | tee "$work/runs" >&2

awk -v pairs="$pairs" '
  function median(list, n,   i, j, t, v) {
    split(list, v, " ")
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j-1] + 0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
    return n % 2 ? v[(n+1)/2] : (v[n/2] + v[n/2+1]) / 2
  }
  NF == 3 && ($1 == "binding" || $1 == "inline" || $1 == "dedicated") {
    runs[$1, $2] = runs[$1, $2] " " $3
    count[$1, $2]++
    if (!($2 in seen)) { seen[$2] = 1; order[++n] = $2 }
  }
  END {
    printf "%-22s %10s %10s %10s %8s %8s %8s\n", "", "binding", "inline", "dedicated", "inline", "dedic.", "target"
    for (i = 1; i <= n; i++) {
      name = order[i]
      if (count["binding", name] != pairs || count["inline", name] != pairs || count["dedicated", name] != pairs) {
        print "runs are missing for " name; bad = 1; continue
      }
      b = median(runs["binding", name], pairs); l = median(runs["inline", name], pairs); d = median(runs["dedicated", name], pairs)
      printf "%-22s %10.4g %10.4g %10.4g %8.3f %8.3f %8s\n", name, b, l, d, l / b, d / b, name ~ /^latency/ ? "<= 1.35" : ">= 0.95"
    }
    exit bad
  }' "$work/runs" >"$work/table"

result=testdata/bench/engine-rxe/$(date -u +%Y-%m-%d).txt
mkdir -p "$(dirname "$result")"
{
  echo "Medians of $pairs interleaved rounds in one boot; latency is half of the round trip. Ratios: engine over binding."
  echo "commit $(git rev-parse --short HEAD), $(go version | cut -d' ' -f3,4), $(nproc) cores: $(awk -F ': ' '/model name/ {print $2; exit}' /proc/cpuinfo)"
  echo
  cat "$work/table"
  echo
  echo "runs:"
  grep -E '^(binding|inline|dedicated) ' "$work/runs"
} >"$result"
cat "$work/table"
echo "written to $result"
