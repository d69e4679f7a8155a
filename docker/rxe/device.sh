#!/bin/bash
# Makes or removes the soft-RoCE device rxe0 in the running kernel: device.sh up [NETDEV ADDRESS/BITS] | down. Needs root.
#
# Without NETDEV it lies on a dummy interface of its own: mtu 9000 gives a path MTU of 4096, and no packet can leave the
# machine. rdma_rxe refuses to load ("failed to add") before the crypto driver crc32_generic.
set -euo pipefail

netdev=${2:-weft0}
address=${3:-10.9.0.1/24}

case ${1:-} in
up)
  modprobe -q crc32_generic || true # built in, or part of another driver, on newer kernels
  modprobe -q ib_uverbs
  modprobe -q rdma_rxe
  if [ "$netdev" = weft0 ]; then
    modprobe -q dummy
    ip link add weft0 type dummy
    ip link set weft0 mtu 9000
  fi
  ip address add "$address" dev "$netdev"
  ip link set "$netdev" up
  rdma link add rxe0 type rxe netdev "$netdev"
  ;;
down)
  rdma link delete rxe0 2>/dev/null || true
  ip link delete weft0 2>/dev/null || true
  ;;
*)
  echo "usage: device.sh up [NETDEV ADDRESS/BITS] | down" >&2
  exit 2
  ;;
esac
