#!/bin/bash
# Runs in the guest and proves run.sh's other two paths there, where both exist: a device that is present, then a kernel
# module that can be loaded.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

said() {
  local want=$1 got
  got=$("$here/run.sh" rdma link 2>&1)
  case $got in
  *"$want"*"link rxe0/1 state ACTIVE"*) echo "paths.sh: ok: $want" ;;
  *) echo "paths.sh: run.sh should have said '$want' and shown rxe0, but printed: $got"; exit 1 ;;
  esac
}

said "on the RDMA device rxe0"
"$here/device.sh" down
modprobe -r rdma_rxe
said "on rxe0, made with this kernel's rdma_rxe"
! grep -qs ACTIVE /sys/class/infiniband/*/ports/*/state || { echo "paths.sh: run.sh left its device behind"; exit 1; }
"$here/device.sh" up
