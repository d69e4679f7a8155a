#!/bin/bash
# Runs a command where there is an RDMA device, and says on standard error where that is:
#   device  the host has an RDMA device with an active port: the command runs as it is;
#   module  root, and the host's kernel can load rdma_rxe: rxe0 is made for the command and removed after it;
#   guest   otherwise: a QEMU machine (guest.sh, which takes the options).
#
#   run.sh [guest.sh's options] [--] COMMAND [ARGUMENT…]
#
# WEFT_RXE_ON=device|module|guest asks for one of them; it is an error where that one is not to be had.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

options=() keep=''
while [ $# -gt 0 ]; do
  case $1 in
  --keep) keep=$2; options+=("$1" "$2"); shift 2 ;;
  --time | --memory) options+=("$1" "$2"); shift 2 ;;
  --) shift; break ;;
  -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  *) break ;;
  esac
done
[ $# -gt 0 ] || { echo "run.sh: no command given" >&2; exit 2; }

has_device() { grep -qs ACTIVE /sys/class/infiniband/*/ports/*/state; }
loads_module() {
  [ "$(id -u)" = 0 ] && modprobe -q rdma_rxe || return
  "$here/device.sh" up || { "$here/device.sh" down; return 1; }
}

# On the machine itself the command has $WEFT_OUT too.
run_here() {
  export WEFT_OUT=${keep:-$(mktemp -d "${TMPDIR:-/tmp}/weft-out.XXXXXX")}
  mkdir -p "$WEFT_OUT"
  local code=0
  "$@" || code=$?
  [ -n "$keep" ] || rm -rf "$WEFT_OUT"
  return $code
}

on=${WEFT_RXE_ON:-}
unset WEFT_RXE_ON
if [[ -z $on || $on = device ]] && has_device; then
  echo "soft-RoCE tier: on the RDMA device $(grep -ls ACTIVE /sys/class/infiniband/*/ports/*/state | head -1 | cut -d/ -f5)" >&2
  run_here "$@"
elif [[ -z $on || $on = module ]] && loads_module; then
  trap '"$here/device.sh" down' EXIT
  echo "soft-RoCE tier: on rxe0, made with this kernel's rdma_rxe" >&2
  run_here "$@"
elif [[ -z $on || $on = guest ]]; then
  echo "soft-RoCE tier: in a QEMU machine (no RDMA device here, and rdma_rxe cannot be loaded)" >&2
  exec "$here/guest.sh" "${options[@]}" -- "$@"
else
  echo "run.sh: WEFT_RXE_ON=$on: this machine has no such thing" >&2
  exit 2
fi
