#!/bin/bash
# Moves real files between two processes and verifies them: a tar of at least 50 MiB made from the Go distribution, and single
# files of it. It hashes what it reads back from disk. First on this machine as it is, by libfabric over sockets;
# then by RDMA, where it looks at the device's own packet counter too.
#
# The part that needs an RDMA device runs where run.sh finds one: as `demo.sh inside FOLDER PATIENCE`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { echo "demo: $*" >&2; exit 1; }
say() { echo "demo: $*"; }

# prepare FOLDER: builds weft and the files to move.
prepare() {
  local work=$1 goroot part
  (cd "$here/../.." && go build -o "$work/weft" ./cmd/weft)
  goroot=$(go env GOROOT)
  mkdir "$work/files"
  tar -C "$goroot" -cf "$work/files/go.tar" --files-from /dev/null
  for part in src/runtime src/net src/crypto src/cmd/compile src/cmd/internal src/cmd/vendor src/cmd/go bin src pkg; do
    [ "$(stat -c %s "$work/files/go.tar")" -lt $((50 << 20)) ] || break # enough, whatever this version's parts weigh
    tar -C "$goroot" -rf "$work/files/go.tar" "$part"
  done
  [ "$(stat -c %s "$work/files/go.tar")" -ge $((50 << 20)) ] || fail "$goroot has no 50 MiB of files"
  cp "$goroot/bin/gofmt" "$goroot/VERSION" "$goroot/src/net/http/server.go" "$work/files/"
  : >"$work/files/empty"
  (cd "$work/files" && sha256sum -- * >"$work/sums")
  say "$(wc -l <"$work/sums") files, $(du -cb "$work"/files/* | tail -1 | cut -f1) bytes, made from $goroot"
}

# number FILE: the number in a file of /sys. The kernel keeps device counters for 10 ms: wait for new ones.
number() { sleep 0.05; cat "$1"; }

# json KEY: the first number or string of that key in the JSON on standard input.
json() { grep -o "\"$1\":\"\?[^,\"}]*" | head -1 | sed 's/^[^:]*:"\?//'; }

# pick_device FILE: sets device, address and mtu to those of the first device whose port 1 is active; FILE is of weft info.
pick_device() {
  local state info
  state=$(grep -ls ACTIVE /sys/class/infiniband/*/ports/1/state | head -1) || fail "port 1 of no RDMA device is active"
  device=$(cut -d/ -f5 <<<"$state")
  info=$(sed 's/{"name":/\n&/g' "$1" | grep "^{\"name\":\"$device\"") || fail "weft info does not show $device: $(cat "$1")"
  mtu=$(json active_mtu <<<"$info")
  address=$(grep -o '{[^{}]*"chosen":true[^{}]*}' <<<"$info" | head -1 | json gid) || fail "$device has no usable GID"
  case $address in
  *:*) address=127.0.0.1 ;; # control over TCP can take any way; the files take that of the device
  esac
}

# pick_counter: sets counter to a file that counts the packets that the device sent.
pick_counter() {
  local port=/sys/class/infiniband/$device/ports/1 file
  for file in "$port/hw_counters/sent_pkts" "$port/counters/port_xmit_packets"; do
    if [ -r "$file" ]; then
      counter=$file
      return
    fi
  done
  fail "$device counts no packets that it sends: neither hw_counters/sent_pkts nor counters/port_xmit_packets"
}

# What one end of a transfer may take, in seconds. Whoever takes longer says where all its goroutines stand, and is ended.
patience=${3:-$("$here/../../scripts/scaled.sh" 100)}
limited=(timeout -s QUIT -k 10 "$patience")

# ended STATUS WHAT FILE: fails unless the status is that of success; FILE is what it wrote to standard error.
ended() {
  case $1 in
  0) ;;
  124 | 137) fail "$2 has not ended within $patience s: $(cat "$3")" ;;
  *) fail "$2 failed: $(cat "$3")" ;;
  esac
}

# transfer FOLDER OUT RAIL ADDRESS: moves the files from FOLDER to OUT/incoming, by a receiver that listens on ADDRESS.
transfer() {
  local work=$1 out=$2 rail=$3 address=$4 port='' i status=0
  mkdir "$out/incoming"
  : >"$out/recv.err" # it is read before the receiver has made it
  "${limited[@]}" "$work/weft" recv --once --open --rail "$rail" --listen "$address:0" --dir "$out/incoming" >"$out/recv.out" 2>"$out/recv.err" &
  receiver=$!
  for ((i = 0; i < 10 * patience; i++)); do
    port=$(sed -n 's/^weft: listening on .*:\([0-9]*\);.*/\1/p' "$out/recv.err")
    [ -z "$port" ] || break
    kill -0 "$receiver" 2>/dev/null || break
    sleep 0.1
  done
  [ -n "$port" ] || fail "the receiver does not listen within $patience s: $(cat "$out/recv.err")"
  "${limited[@]}" "$work/weft" send --json --rail "$rail" "$work"/files/* "$address:$port" \
    >"$out/send.json" 2>"$out/send.err" || status=$?
  ended $status "sending over $rail" "$out/send.err"
  wait "$receiver" || status=$?
  receiver=''
  ended $status "receiving over $rail" "$out/recv.err"
  cat "$out/recv.out"
}

# native FOLDER RAIL: a transfer on this machine as it is.
native() {
  local work=$1 rail=$2 out
  out=$(mktemp -d "$work/out.XXXXXX")
  say "--rail $rail, control over TCP to 127.0.0.1"
  transfer "$work" "$out" "$rail" 127.0.0.1
  verify "$work" "$out"
  say "$(json rdma_bytes <"$out/send.json") bytes over $rail, $(json control_bytes <"$out/send.json") bytes of control over TCP"
  rm -rf "$out"
}

inside() {
  local work=$1 out started
  local device address mtu counter
  out=$(mktemp -d "${TMPDIR:-/tmp}/weft-demo-out.XXXXXX")
  "$work/weft" info --json >"$out/info.json"
  pick_device "$out/info.json"
  pick_counter
  say "device $device, path MTU $mtu, control over TCP to $address"
  started=$(number "$counter")
  transfer "$work" "$out" "verbs:$device" "$address"
  check "$work" "$out" "$started" "$(number "$counter")"
  rm -rf "$out"
}

# verify FOLDER OUT: what was read back from disk is what was sent, and all of it went by the rail. Sets payload.
verify() {
  local work=$1 out=$2 bytes
  (cd "$out/incoming" && sha256sum --quiet --strict -c "$work/sums") || fail "what was read back from disk is not what was sent"
  payload=$(du -cb "$work"/files/* | tail -1 | cut -f1)
  bytes=$(json rdma_bytes <"$out/send.json")
  # Records around the files' bytes go by the rail too: 8 bytes in front of each piece, and a hash for each file.
  [ "$bytes" -ge "$payload" ] || fail "the files have $payload bytes, $bytes went by the rail"
  say "verified: SHA-256 of all $(wc -l <"$work/sums") files, read back from disk, is that of what was sent"
}

# check FOLDER OUT COUNT COUNT: what arrived, and the counter before and after.
check() {
  local work=$1 out=$2 sent=$(($4 - $3)) payload least
  verify "$work" "$out"
  least=$(((payload + mtu - 1) / mtu))
  say "$payload bytes by RDMA over $device, $(json control_bytes <"$out/send.json") bytes of control over TCP"
  say "$counter grew by $sent; $payload bytes at path MTU $mtu are at least $least packets"
  [ "$sent" -ge "$least" ] || fail "the device did not send the files"
}

trap '[ -z "${receiver:-}" ] || kill "$receiver" 2>/dev/null || true' EXIT
if [ "${1:-}" = inside ]; then
  inside "$2"
  exit
fi
say "moving files between two processes, natively and over an RDMA device (about half a minute on an idle machine)"
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-demo.XXXXXX")
trap '[ -z "${receiver:-}" ] || kill "$receiver" 2>/dev/null || true; rm -rf "$work"' EXIT
prepare "$work"
native "$work" fabric:tcp
"$here/run.sh" --time $((3 * patience)) bash "$here/demo.sh" inside "$work" "$patience"
