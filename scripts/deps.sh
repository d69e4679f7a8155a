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
  socat rsync time                    # what scripts/bench-weft.sh measures beside, and with
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
log=$(mktemp "${TMPDIR:-/tmp}/weft-deps.XXXXXX.log")
failed() {
  tail -n 20 "$log" >&2
  echo "deps.sh: $1 failed; all that it said is in $log" >&2
  exit 1
}
"${root[@]}" apt-get update >"$log" 2>&1 || failed "apt-get update"
if [ ${#missing[@]} -gt 0 ]; then
  echo "deps.sh: installing ${missing[*]} and what they need (about two minutes; the log is $log)"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >>"$log" 2>&1 &
  installing=$!
  # Between two lines of progress at least one package was set up; of a terminal they are one line.
  end=$'\n' total='' last=-1
  [ ! -t 1 ] || end=$'\r'
  while kill -0 "$installing" 2>/dev/null; do
    sleep 2
    total=$(sed -n 's/.* upgraded, \([0-9]*\) newly installed.*/\1/p' "$log" | tail -1)
    ready=$(grep -c '^Setting up ' "$log" || true)
    [ -n "$total" ] && [ "$ready" -ne $last ] || continue
    [ -t 1 ] || [ "$ready" -eq "$total" ] || [ $((ready - last)) -ge 25 ] || continue
    printf 'deps.sh: %d of %d packages are set up%s' "$ready" "$total" "$end"
    last=$ready
  done
  wait "$installing" || failed "apt-get install"
  [ "$end" = $'\n' ] || echo
fi
rm -f "$log"
