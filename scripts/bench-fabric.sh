#!/bin/bash
# fabric against the same calls from C (csrc/test/fabric_loop.c), interleaved: writes with data between two processes, of
# which the target is the C program in both cases; medians of ROUNDS (5) pairs, and the ratio. Then fi_pingpong and
# ucx_perftest of this machine, which do other things and are there for orientation: fi_pingpong sends messages, put_lat of
# UCX signals nobody, tag_bw sends messages too.
#   bench-fabric.sh [PROVIDER…]     tcp and shm without any
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-5}
[ $# -gt 0 ] || set -- tcp shm

work=$(mktemp -d "${TMPDIR:-/tmp}/weft-bench-fabric.XXXXXX")
trap 'rm -rf "$work"' EXIT
gcc -O2 -o "$work/loop" csrc/test/fabric_loop.c -lfabric
go test -c -tags nosymbolizer -o "$work/fabric.test" ./fabric

# pair PROVIDER COMMAND…: runs a writer against a C target, and prints what the writer prints last.
pair() {
  local provider=$1
  shift
  rm -f "$work"/[ab]
  mkfifo "$work/a" "$work/b"
  timeout 60 "$work/loop" "$provider" target <"$work/a" >"$work/b" &
  timeout 60 "$@" <"$work/b" | tee "$work/a" | tail -1
  wait $! || true
}

median() { sort -n "$1" | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# writes PROVIDER SIZE N BATCH: a line of the table.
writes() {
  : >"$work/c"
  : >"$work/go"
  for _ in $(seq "$rounds"); do
    pair "$1" "$work/loop" "$1" write "$2" "$3" "$4" >>"$work/c"
    WEFT_TEST_CHILD=writer pair "$1" "$work/fabric.test" "$1" "$2" "$3" "$4" >>"$work/go"
  done
  paste "$work/c" "$work/go" | awk '$1 > 0 {print $2 / $1}' >"$work/ratio"
  printf '%-5s %9d B %5d  %12.0f %12.0f %9.3f\n' "$1" "$2" "$4" "$(median "$work/c")" "$(median "$work/go")" "$(median "$work/ratio")"
}

echo "what a crossing of nothing costs, nanoseconds:"
go test -run '^$' -bench EmptyCrossing -count "$rounds" ./verbs | awk '/^Benchmark/ {print $3}' >"$work/empty"
median "$work/empty"
printf '\n%-5s %11s %5s  %12s %12s %9s\n' provider size batch "C, ns" "fabric, ns" "ratio"
for provider; do
  scale=1
  [ "$provider" = shm ] || scale=8
  while read -r size n; do
    writes "$provider" "$size" $((n / scale / 64 * 64 + 64)) 64
    [ "$size" -gt 1048576 ] || writes "$provider" "$size" $((n / scale)) 1
  done <<'SIZES'
8 200000
4096 100000
65536 12000
1048576 1000
16777216 64
SIZES
done

# What a client prints of one transfer while its server runs; neither program says when its server listens.
pingpong() {
  timeout 60 fi_pingpong -p "$1" -e rdm -S "$2" -I "$3" -B 47592 >/dev/null 2>&1 &
  sleep 0.3
  timeout 60 fi_pingpong -p "$1" -e rdm -S "$2" -I "$3" -P 47592 127.0.0.1 2>/dev/null | awk 'END {print $(NF - 1) * 1000}'
  wait $! 2>/dev/null || true
}

ucx() {
  export UCX_TLS=$1 UCX_WARN_UNUSED_ENV_VARS=n
  timeout 60 ucx_perftest -p 47593 -c 0 >/dev/null 2>&1 &
  sleep 0.3
  timeout 60 ucx_perftest -p 47593 -c 1 127.0.0.1 -t "$2" -s "$3" -n "$4" -w $(($4 / 10 + 1)) -f 2>/dev/null |
    awk '/^ +[0-9]/ {ns = $4 * 1000} END {print ns + 0}'
  wait $! 2>/dev/null || true
}

printf '\n%-5s %11s  %16s %16s %16s\n' provider size "fi_pingpong, ns" "ucx put_lat, ns" "ucx tag_bw, ns"
for provider; do
  tls=tcp
  [ "$provider" != shm ] || tls=posix,cma,self
  while read -r size n; do
    : >"$work/pp"
    : >"$work/lat"
    : >"$work/bw"
    for _ in 1 2 3; do
      pingpong "$provider" "$size" "$n" >>"$work/pp"
      ucx "$tls" ucp_put_lat "$size" "$n" >>"$work/lat"
      ucx "$tls" tag_bw "$size" "$n" >>"$work/bw"
    done
    printf '%-5s %9d B  %16.0f %16.0f %16.0f\n' "$provider" "$size" "$(median "$work/pp")" "$(median "$work/lat")" "$(median "$work/bw")"
  done <<'SIZES'
8 5000
4096 5000
65536 1000
1048576 100
16777216 10
SIZES
done
