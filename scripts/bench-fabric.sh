#!/bin/bash
# What fabric costs above libfabric, on this machine's providers without a device. Prints tables, and writes them to
# testdata/bench/fabric/. Needs two processors with nothing else to do.
#
#   bench-fabric.sh [PART…]
#
# Parts, each of a provider P (shm, tcp; engine only tcp); without any, all:
#   calls-P    writes with data: the binding, against the same calls from C (fabric/bench_test.go)
#   engine-P   writes with an immediate: the engine over fabricrail, against the binding (fabricrail/bench_test.go)
#   others-P   fi_pingpong and ucx_perftest
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-31} # at least, of each line of calls-P and engine-P
[ $# -gt 0 ] || set -- calls-shm calls-tcp engine-tcp others-shm others-tcp

work=$(mktemp -d "${TMPDIR:-/tmp}/weft-bench-fabric.XXXXXX")
trap 'rm -rf "$work"' EXIT

# calls PROVIDER
calls() {
  gcc -O2 -o "$work/loop" csrc/test/fabric_loop.c -lfabric
  go test -c -tags nosymbolizer -o "$work/fabric.test" ./fabric
  local sizes=(8 4096 65536 1048576 16777216)
  [ "$1" != shm ] || sizes=(self8 self4096 "${sizes[@]}")
  cat <<'HEAD'
Nanoseconds an operation, medians. Three writers take turns of 1 ms on processor 0 with one target on processor 1, a program
in C: a program in C; the same loop in C inside this process, on the binding's endpoint; the binding on that endpoint. ratio:
of the binding to the loop beside it, median and quartiles of the rounds. above: how many empty crossings a single operation
took more; C each: the loop in C too, where a crossing enters it for each operation. crossings: how many an operation took. self: this process writes to itself, and takes in between what is timed.

provider       bytes  at C, program      C here      fabric   ratio       quartiles rounds  above  C each crossing crossings
HEAD
  WEFT_TEST_CHILD=bench timeout 170 "$work/fabric.test" "$work/loop" "$1" "$rounds" "${sizes[@]}"
}

# engine tcp
engine() {
  go test -c -tags nosymbolizer -o "$work/fabricrail.test" ./transferengine/fabricrail
  cat <<'HEAD'
Nanoseconds, medians: of a write in a stream of which 64 are in flight, and of half a round trip of one write and its answer. Both
sides have a process at each end, and take turns of 3 ms; what they write carries an immediate, and completes as the rail's
writes do. inline: each process has one processor. dedicated: both have both, since an engine has a thread of its own. ratio: of
the binding's time to the engine's, median and quartiles of the rounds. above: by how much the engine's time is longer.

provider           bytes           binding      engine   ratio       quartiles rounds    above
HEAD
  local sizes=(8 4096 65536 1048576 16777216)
  WEFT_TEST_CHILD=bench timeout 170 taskset -c 0 "$work/fabricrail.test" "$rounds" inline "${sizes[@]}"
  WEFT_TEST_CHILD=bench timeout 170 "$work/fabricrail.test" "$rounds" dedicated "${sizes[@]}"
}

median() { sort -n "$1" | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# What a client prints of one transfer while its server runs; neither program says when its server listens.
pingpong() {
  timeout 60 taskset -c 0 fi_pingpong -p "$1" -e rdm -S "$2" -I "$3" -B 47592 >/dev/null 2>&1 &
  sleep 0.3
  timeout 60 taskset -c 1 fi_pingpong -p "$1" -e rdm -S "$2" -I "$3" -P 47592 127.0.0.1 2>/dev/null | awk 'END {print $(NF - 1) * 1000}'
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

# others PROVIDER
others() {
  cat <<'HEAD'
Nanoseconds, medians of 3. fi_pingpong, and tag_lat of UCX: half a round trip of messages. put_lat: half a round trip of puts, which
signal nobody: each end looks at its memory. tag_bw: a message of a stream. put_bw is not among them: it collapses on tcp, and on
shm it is a store into shared memory.

HEAD
  printf '%-8s %9s %12s %12s %12s %12s\n' provider bytes fi_pingpong tag_lat put_lat tag_bw
  local tls=tcp
  [ "$1" != shm ] || tls=posix,cma,self
  while read -r size n; do
    : >"$work/pp"
    : >"$work/tag"
    : >"$work/lat"
    : >"$work/bw"
    for _ in 1 2 3; do
      pingpong "$1" "$size" "$n" >>"$work/pp"
      ucx "$tls" tag_lat "$size" "$n" >>"$work/tag"
      ucx "$tls" ucp_put_lat "$size" "$n" >>"$work/lat"
      ucx "$tls" tag_bw "$size" "$n" >>"$work/bw"
    done
    printf '%-8s %9d %12.0f %12.0f %12.0f %12.0f\n' "$1" "$size" "$(median "$work/pp")" "$(median "$work/tag")" \
      "$(median "$work/lat")" "$(median "$work/bw")"
  done <<'SIZES'
8 5000
4096 5000
65536 1000
1048576 100
16777216 10
SIZES
}

mkdir -p testdata/bench/fabric
for part; do
  result=testdata/bench/fabric/$part.txt
  {
    echo "$part: $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD), $(go version | cut -d' ' -f3,4)," \
      "libfabric $(fi_info --version | awk '/^libfabric:/ {print $2}'), $(nproc) processors:" \
      "$(awk -F ': ' '/model name/ {print $2; exit}' /proc/cpuinfo)"
    "${part%-*}" "${part#*-}"
  } | tee "$work/result"
  mv "$work/result" "$result"
done
