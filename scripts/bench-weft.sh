#!/bin/bash
# What `weft send` and `weft recv` cost above what moves the same bytes without them, over tcp between two processes of this
# machine. Prints tables, and writes them to testdata/bench/weft/. Each line is of pairs that were measured one after the other, the
# two taking turns to be first; ratio is the median of theirs. Needs two processors with nothing else to do.
#
#   bench-weft.sh [PART…]
#
#   large   one file (SIZE=2G) beside socat -b 1M, which hashes nothing
#   small   10,000 files of 1 kB beside rsync -a to a folder, and tar through socat
#   start   3 bytes: until send has ended, and the most memory of either end
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-7}
size=${SIZE:-2G}
[ $# -gt 0 ] || set -- large small start

# In memory, so that no disk is measured.
work=$(mktemp -d "${TMPDIR:-/dev/shm}/weft-bench.XXXXXX")
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
go build -tags nosymbolizer -o "$work/weft" ./cmd/weft
port=7599

now() { date +%s.%N; }
# since START: seconds
since() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "%.3f\n", b - a}'; }
quartiles() { sort -n "$1" | awk '{v[NR] = $1} END {printf "%s %s %s", v[int((NR + 3) / 4)], v[int((NR + 1) / 2)], v[int((3 * NR + 3) / 4)]}'; }

# Each prints how many seconds it took to move what is named, from the start of the sending program to its end. Receivers are
# up before.
weft() {
  rm -rf "$work/in" && mkdir "$work/in"
  /usr/bin/time -f %M -o "$work/recv.rss" "$work/weft" recv --rail fabric:tcp --once --listen "127.0.0.1:$port" --dir "$work/in" \
    >"$work/recv.out" 2>"$work/recv.err" &
  local receiver=$!
  for _ in $(seq 200); do
    ! grep -q 'listening on' "$work/recv.err" || break
    sleep 0.05
  done
  local start
  start=$(now)
  /usr/bin/time -f %M -o "$work/send.rss" "$work/weft" send --rail fabric:tcp "$@" "127.0.0.1:$port" >/dev/null 2>"$work/send.err" ||
    { cat "$work/send.err" "$work/recv.err" >&2; return 1; }
  since "$start"
  wait "$receiver"
}

socat_file() {
  rm -f "$work/copy"
  socat -u -b 1048576 "TCP-LISTEN:$port,bind=127.0.0.1,reuseaddr" "OPEN:$work/copy,creat" &
  local receiver=$!
  sleep 0.3
  local start
  start=$(now)
  socat -u -b 1048576 "OPEN:$1" "TCP:127.0.0.1:$port"
  wait "$receiver" # the sender's socket takes some of it
  since "$start"
}

rsync_files() {
  rm -rf "$work/copies"
  local start
  start=$(now)
  rsync -a "$1" "$work/copies"
  since "$start"
}

tar_files() {
  rm -rf "$work/copies" && mkdir "$work/copies"
  socat -u "TCP-LISTEN:$port,bind=127.0.0.1,reuseaddr" - | tar -x -C "$work/copies" &
  local receiver=$!
  sleep 0.3
  local start
  start=$(now)
  tar -c -C "$1" . | socat -u - "TCP:127.0.0.1:$port"
  wait "$receiver"
  since "$start"
}

# pairs NAME COMMAND… : weft with $what and the command, in turns. Prints a line.
pairs() {
  local name=$1 round a b
  shift
  : >"$work/a"
  : >"$work/b"
  : >"$work/r"
  for round in $(seq "$rounds"); do
    if [ $((round % 2)) -eq 0 ]; then
      a=$(weft "$what")
      b=$("$@")
    else
      b=$("$@")
      a=$(weft "$what")
    fi
    echo "$a" >>"$work/a"
    echo "$b" >>"$work/b"
    awk -v a="$a" -v b="$b" 'BEGIN {printf "%.3f\n", b / a}' >>"$work/r"
  done
  local q
  read -r -a q <<<"$(quartiles "$work/r")"
  printf '%-18s %9.3f %9.3f %8.2f %11s %7d\n' "$name" "$(quartiles "$work/a" | cut -d' ' -f2)" \
    "$(quartiles "$work/b" | cut -d' ' -f2)" "${q[1]}" "${q[0]}-${q[2]}" "$rounds"
}

head() { printf '%-18s %9s %9s %8s %11s %7s\n' beside 'weft s' 'other s' ratio quartiles rounds; }

large() {
  echo "One file of $size, over tcp. ratio: the other's time to weft's, so that less than 1 is slower than the other."
  what=$work/file
  [ -f "$what" ] || dd if=/dev/urandom of="$what" bs=1M count="$(($(numfmt --from=iec "$size") >> 20))" status=none
  head
  pairs 'socat -b 1M' socat_file "$what"
  cmp "$what" "$work/in/file"
  rm -f "$what" "$work/copy" "$work/in/file"
}

small() {
  echo "10,000 files of 1 kB, over tcp; rsync -a copies them on this machine, without a network."
  what=$work/files
  mkdir "$what"
  dd if=/dev/urandom bs=1000 count=10000 status=none | split -b 1000 -a 4 -d - "$what/f"
  head
  pairs 'rsync -a' rsync_files "$what/"
  pairs 'tar | socat' tar_files "$what"
  diff -r "$what" "$work/in/files"
}

start() {
  echo "3 bytes over tcp: seconds until weft send has ended, with the loading of libfabric, and the most memory in MiB."
  echo 'seconds quartiles rounds send recv'
  printf abc >"$work/three"
  : >"$work/a"
  for _ in $(seq "$rounds"); do weft "$work/three" >>"$work/a"; done
  local q
  read -r -a q <<<"$(quartiles "$work/a")"
  printf '%7.3f %s-%s %d %4d %4d\n' "${q[1]}" "${q[0]}" "${q[2]}" "$rounds" "$(($(cat "$work/send.rss") >> 10))" \
    "$(($(cat "$work/recv.rss") >> 10))"
}

mkdir -p testdata/bench/weft
for part; do
  {
    echo "$part: $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD), $(go version | cut -d' ' -f3,4)," \
      "libfabric $(fi_info --version | awk '/^libfabric:/ {print $2}'), $(nproc) processors:" \
      "$(awk -F ': ' '/model name/ {print $2; exit}' /proc/cpuinfo), load $(cut -d' ' -f1 /proc/loadavg) before"
    "$part"
  } | tee "$work/result"
  mv "$work/result" "testdata/bench/weft/$part.txt"
done
