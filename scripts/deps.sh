#!/bin/bash
# Installs the Debian packages that the repository needs beside Go, git and make; `make deps` runs it. Where they are all
# there it asks no network and needs no rights. With --list it only prints their names, one a line.
set -euo pipefail

packages=(
  ca-certificates                     # Go fetches modules over TLS
  gcc libc6-dev libibverbs-dev        # to build the bindings
  rdma-core ibverbs-providers         # to run them: libibverbs opens the device's provider by name
  ibverbs-utils perftest              # ibv_rc_pingpong; ib_write_bw and ib_write_lat
  libfabric-dev libfabric-bin         # libfabric: to build and run fabric; fi_info, fi_pingpong
  ucx-utils                           # ucx_perftest
  iproute2 kmod                       # ip and rdma; modprobe
  qemu-system-x86 busybox-static cpio # the soft-RoCE machine
  clang-format                        # the style of the C sources
  debootstrap                         # the roots of `make test-fresh` and of the Docker base image
)

if [ "${1:-}" = --list ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
# The lists are needed even when no package is: the kernel of the soft-RoCE machine is fetched by its name.
if [ ${#missing[@]} -eq 0 ] && compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null; then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "deps.sh: no apt-get here: install what corresponds to these Debian packages: ${missing[*]}" >&2
  exit 1
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "deps.sh: not root and no sudo: as root, run 'make deps'" >&2; exit 1; }
  root=(sudo)
fi
"${root[@]}" apt-get update -qq
if [ ${#missing[@]} -gt 0 ]; then
  echo "deps.sh: installing ${missing[*]}"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
