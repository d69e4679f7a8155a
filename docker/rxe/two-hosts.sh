#!/bin/bash
# Two soft-RoCE machines on a virtual network: weft moves a file from one to the other, and then one of them is killed:
# the receiver and the sender in the middle of a transfer, and the receiver while the sender only waits for it. Each time
# the survivor has to name the lost one within DEADLINE seconds. It takes about three minutes on 2 cores.
#
#   two-hosts.sh [SCENARIO…]
#
# A killed machine says nothing: no connection is closed or reset. What the survivor knows it knows from RDMA.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
deadline=${DEADLINE:-15} # verbsrail's PeerTimeout of 10 s, and what emulation adds
port=7471

work=$(mktemp -d "${TMPDIR:-/tmp}/weft-two-hosts.XXXXXX")
running=''
# shellcheck disable=SC2317 # the trap calls it
clean_up() {
  [ -z "$running" ] || { kill "$running" 2>/dev/null || true; wait "$running" 2>/dev/null || true; }
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# until_true SECONDS COMMAND…: waits until a command succeeds.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { echo "two-hosts: waited in vain: $*" >&2; return 1; }
    sleep 0.05
  done
}

# What each guest runs: every NAME.job that appears in its shared folder, beside each other; NAME.log is what it prints,
# NAME.status how it ended.
# shellcheck disable=SC2016 # the guest's variables
agent='
cd "$WEFT_OUT"
touch ready
while :; do
  for job in *.job; do
    [ -e "$job" ] || continue
    name=${job%.job}
    mv "$job" "$name.sh"
    { bash -eu "$name.sh" >"$name.log" 2>&1; echo $? >"$name.new"; mv "$name.new" "$name.status"; } &
  done
  sleep 0.1
done'

listening() { ss -Hltn "sport = :$1" | grep -q .; }

# boot NAME ADDRESS PEER: boots a guest whose shared folder is $work/NAME.
boot() {
  mkdir "$work/$1"
  "$here/guest.sh" --time "$(scripts/scaled.sh 300)" --keep "$work/$1" --address "$2/24" --peer "$3" -- \
    bash -c "$agent" >"$work/$1.log" 2>&1 &
  guests+=($!)
}

# power_on: boots the guests a (10.9.0.1) and b (10.9.0.2), which end with this shell.
power_on() {
  local wire=$((20000 + RANDOM % 10000))
  guests=()
  trap 'kill "${guests[@]}" 2>/dev/null || true; wait' EXIT
  trap 'exit 143' TERM
  while listening "$wire"; do wire=$((wire + 1)); done
  boot a 10.9.0.1 "listen=127.0.0.1:$wire"
  until_true 60 listening "$wire"
  boot b 10.9.0.2 "connect=127.0.0.1:$wire"
  until_true 120 test -e "$work/a/ready" -a -e "$work/b/ready"
}

# start GUEST NAME COMMAND: starts a job.
start() {
  echo "$3" >"$work/$1/$2.new"
  mv "$work/$1/$2.new" "$work/$1/$2.job"
}

# ended GUEST NAME SECONDS: waits for a job's end; its exit status is the job's.
ended() {
  until_true "$3" test -e "$work/$1/$2.status" || return
  return "$(cat "$work/$1/$2.status")"
}

# on GUEST NAME COMMAND: runs a job of at most a minute and prints what it printed.
on() {
  start "$@"
  local code=0
  ended "$1" "$2" 60 || code=$?
  cat "$work/$1/$2.log"
  return $code
}

# receive: starts weft recv on a, into /run/in.
receive() {
  start a recv "mkdir -p /run/in; exec '$work/weft' recv --once --open --rail verbs:rxe0 --listen 10.9.0.1:$port --dir /run/in"
  on a listening "until ss -Hltn 'sport = :$port' | grep -q .; do sleep 0.1; done"
}

# send FILE: starts weft send on b.
send() { start b send "exec '$work/weft' send --rail verbs:rxe0 '$1' 10.9.0.1:$port"; }

# flowing: waits on b until a transfer is well under way; quiet: until nothing moves any more but now and then a heartbeat.
packets='packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }'
flowing() { on b flowing "$packets; first=\$(packets); until [ \$((\$(packets) - first)) -gt 500 ]; do :; done"; }
quiet() {
  on b quiet "$packets; until first=\$(packets); sleep 1; [ \$((\$(packets) - first)) -lt 10 ]; do :; done"
}

# kill_guest GUEST: as if its power failed.
kill_guest() { kill -9 "$(cat "$work/$1/qemu.pid")"; }

# names GUEST NAME PEER: the survivor's job has to end as failed within the deadline after the kill, and its last words
# have to name the peer.
names() {
  local begin=$EPOCHREALTIME code=0 said
  ended "$1" "$2" "$deadline" || code=$?
  said=$(grep '^weft: ' "$work/$1/$2.log" | tail -1) || true
  awk -v begin="$begin" -v end="$EPOCHREALTIME" 'BEGIN {printf "two-hosts: after %.1f s: ", end - begin}'
  echo "$said"
  [ -e "$work/$1/$2.status" ] && [ $code -ne 0 ] && [[ $said = *$3* ]]
}

transfer() {
  on b file 'head -c 20971520 /dev/urandom >/run/file; sha256sum </run/file' >"$work/sent"
  receive
  send /run/file
  ended b send 120
  ended a recv 10
  on a file 'sha256sum </run/in/file' >"$work/received"
  cmp "$work/sent" "$work/received"
}

killed_receiver() {
  receive
  send /run/big
  flowing
  kill_guest a
  names b send 10.9.0.1
}

killed_sender() {
  receive
  send /run/big
  flowing
  kill_guest b
  names a recv 10.9.0.2
}

# The receiver's disk stalls: its engine lives, but the sender fills the window and then only waits.
killed_while_waiting() {
  on a disk 'modprobe loop; truncate -s 700M /run/disk; mkfs.ext4 -q /run/disk; mkdir /run/in; mount -o loop /run/disk /run/in'
  receive
  send /run/big
  flowing
  on a freeze 'fsfreeze --freeze /run/in'
  quiet
  kill_guest a
  names b send 10.9.0.1
}

scenario() {
  rm -rf "$work"/{a,b}
  power_on
  on b big 'truncate -s 512M /run/big'
  "$1"
}

go build -o "$work/weft" ./cmd/weft
passed=0 failed=0
[ $# -gt 0 ] || set -- transfer killed_receiver killed_sender killed_while_waiting
for name in "$@"; do
  echo "=== $name"
  code=0
  # Not in a condition, where the shell would go on after a step that fails.
  (scenario "$name") &
  running=$!
  wait "$running" || code=$?
  running=''
  if [ $code -eq 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -n 20 "$work"/{a,b}.log "$work"/{a,b}/*.log
  fi
  echo "--- $name: $([ $code -eq 0 ] && echo passed || echo failed)"
done
echo "two-hosts: $passed passed, $failed failed"
[ $failed -eq 0 ]
