#!/bin/bash
# The binding against perftest on soft-RoCE: interleaved pairs in one boot (PAIRS, default 7), medians as ratios. Prints
# the table and writes it, with the runs that it comes from, to testdata/bench/rxe/. ONLY, a regular expression, keeps to
# the tests of these names, and writes nothing there.
#
# Both sides: one queue pair, two processes, depth 128, every 64th request signalled (in the latency tests each write and
# read, and now and then a send), nothing inline, the device's MTU, and each process on a processor of its own, since the
# kernel's balancing otherwise puts both ends on one for milliseconds; with events they sleep where they like. Receives are
# posted again one by one by perftest, and by weft in lists of 32.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
pairs=${PAIRS:-7} only=${ONLY:-.}

work=$(mktemp -d "${TMPDIR:-/tmp}/weft-bench-rxe.XXXXXX")
trap 'rm -rf "$work"' EXIT
go test -c -tags nosymbolizer -o "$work/verbs.test" ./verbs

cat >"$work/inside.sh" <<'INSIDE'
set -euo pipefail
work=$1 pairs=$2 only=$3
device=$(basename "$(echo /sys/class/infiniband/* | cut -d' ' -f1)")
# Both sides use the RoCE v2 address by IPv4: verbs.SelectGID chooses it, perftest is told its index.
for gid in "/sys/class/infiniband/$device/ports/1/gids/"*; do
  if grep -q ':ffff:' "$gid" && grep -qs v2 "${gid/gids/gid_attrs/types}"; then index=$(basename "$gid"); break; fi
done

# perftest NAME COLUMN TOOL OPTIONS…: one run, both ends on this machine; says NAME and the COLUMN of its result line.
perftest() {
  local name=$1 column=$2 tool=$3 value
  shift 3
  [[ $name =~ $only ]] || return 0
  local options=(-F -d "$device" -x "$index" --use_old_post_send "$@")
  local server=(timeout 60) client=(timeout 60)
  [[ $name =~ events ]] || { server+=(taskset -c 0); client+=(taskset -c 1); }
  "${server[@]}" "$tool" "${options[@]}" >/dev/null 2>&1 &
  local listening=$!
  # Its port being taken is the server being ready.
  until ss -Hltn 'sport = :18515' | grep -q .; do sleep 0.1; done
  value=$("${client[@]}" "$tool" "${options[@]}" 127.0.0.1 2>/dev/null | awk -v c="$column" '$1 ~ /^[0-9]+$/ && NF >= c {print $c; exit}')
  wait $listening
  echo "perftest $name $value $tool ${options[*]}"
}

# weft NAME BENCHMARK TIMES AWK: one run; says NAME and what AWK makes of the result line.
weft() {
  [[ $1 =~ $only ]] || return 0
  local options=(-test.run '^$' -test.bench "$2" -test.benchtime "$3x")
  local value
  value=$(cd verbs && "$work/verbs.test" "${options[@]}" | awk "/^Benchmark/ {$4}")
  echo "weft $1 $value verbs.test ${options[*]}"
}

for _ in $(seq "$pairs"); do
  perftest bandwidth_4KiB_MB/s 4 ib_write_bw -s 4096 -n 8000 -t 128 -Q 64
  weft bandwidth_4KiB_MB/s 'Write$/size=4096/' 8000 'print $5'
  perftest bandwidth_64KiB_MB/s 4 ib_write_bw -s 65536 -n 500 -t 128 -Q 64
  weft bandwidth_64KiB_MB/s 'Write$/size=65536' 500 'print $5'
  perftest bandwidth_1MiB_MB/s 4 ib_write_bw -s 1048576 -n 64 -t 128 -Q 64
  weft bandwidth_1MiB_MB/s 'Write$/size=1048576' 64 'print $5'
  perftest rate_8B_list64_Mmsg/s 5 ib_write_bw -s 8 -l 64 -n 25600 -t 128 -Q 64
  weft rate_8B_list64_Mmsg/s 'Write$/size=8/' 25600 'print 1000 / $3'
  perftest rate_UD_64B_Mmsg/s 5 ib_send_bw -c UD -s 64 -n 16384 -t 128 -Q 64
  weft rate_UD_64B_Mmsg/s 'Datagrams$' 16384 'print 1000 / $3'
  perftest latency_write_8B_us 5 ib_write_lat -s 8 -n 20000 -I 0
  weft latency_write_8B_us 'WriteLatency$' 20000 'print $5'
  perftest latency_send_64B_us 5 ib_send_lat -s 64 -n 20000 -I 0
  weft latency_send_64B_us 'SendLatency$/sends' 20000 'print $5'
  perftest latency_send_events_us 5 ib_send_lat -s 64 -n 2000 -I 0 -e
  weft latency_send_events_us 'SendLatency$/events' 2000 'print $5'
  perftest latency_UD_64B_us 5 ib_send_lat -c UD -s 64 -n 20000 -I 0
  weft latency_UD_64B_us 'SendLatency$/datagrams' 20000 'print $5'
  perftest latency_read_8B_us 5 ib_read_lat -s 8 -n 20000
  weft latency_read_8B_us 'ReadLatency$' 20000 'print $5'
done
INSIDE

"$here/run.sh" --time "$("$here/../../scripts/scaled.sh" $((180 * pairs + 60)))" bash "$work/inside.sh" "$work" "$pairs" "$only" | tee "$work/runs" >&2

# perftest counts bandwidth in MiB/s.
awk -v pairs="$pairs" '
  function median(list, n,   i, j, t, v) {
    split(list, v, " ")
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j-1] + 0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
    return n % 2 ? v[(n+1)/2] : (v[n/2] + v[n/2+1]) / 2
  }
  $1 == "perftest" || $1 == "weft" {
    value = $1 == "perftest" && $2 ~ /^bandwidth/ ? $3 * 1.048576 : $3
    runs[$1, $2] = runs[$1, $2] " " value
    count[$1, $2]++
    if (!($2 in seen)) { seen[$2] = 1; order[++n] = $2 }
    line = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", line); command[$1, $2] = line
  }
  END {
    printf "%-24s %12s %12s %8s %8s\n", "", "perftest", "weft", "ratio", "target"
    for (i = 1; i <= n; i++) {
      name = order[i]
      if (count["perftest", name] != pairs || count["weft", name] != pairs) { print "runs are missing for " name; bad = 1; continue }
      theirs = median(runs["perftest", name], pairs); ours = median(runs["weft", name], pairs)
      target = name ~ /events/ ? "" : name ~ /^latency/ ? "<= 1.15" : ">= 0.95"
      printf "%-24s %12.4g %12.4g %8.3f %8s\n", name, theirs, ours, ours / theirs, target
    }
    print ""
    for (i = 1; i <= n; i++) print command["perftest", order[i]] "\n" command["weft", order[i]]
    exit bad
  }' "$work/runs" >"$work/table"

if [ "$only" != . ]; then
  cat "$work/table"
  exit
fi
result=testdata/bench/rxe/$(date -u +%Y-%m-%d).txt
mkdir -p "$(dirname "$result")"
{
  echo "Medians of $pairs interleaved pairs in one boot; latency is half of the round trip, of a read the whole. Ratio: weft over perftest."
  echo "commit $(git rev-parse --short HEAD), $(go version | cut -d' ' -f3,4), $(nproc) cores: $(awk -F ': ' '/model name/ {print $2; exit}' /proc/cpuinfo)"
  echo
  cat "$work/table"
  echo
  echo "runs:"
  cut -d' ' -f1-3 "$work/runs"
} >"$result"
cat "$work/table"
echo "written to $result"
