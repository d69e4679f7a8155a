#!/bin/bash
# fabric with libfabric 2.x, which Debian 13 has: the shim compiled against its headers with every warning an error, and
# fabric's tests run with its library, built against this machine's headers as well as against those. Needs root, and
# 600 MiB under ${TMPDIR:-/var/tmp} for a Debian root that is gone when it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=trixie

if [ "$(id -u)" -ne 0 ]; then
  echo "fabric2.sh: debootstrap and chroot need root: run 'sudo make test-fabric2'" >&2
  exit 1
fi
PATH=$PATH:/usr/sbin:/sbin

# The mirror that this machine's apt uses, reached in the way that this machine's apt is told to.
# shellcheck disable=SC2016 # apt's own variable
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | sed -n 1p)
if [ -z "$mirror" ]; then
  echo "fabric2.sh: apt knows no Debian mirror: run 'apt-get update'" >&2
  exit 1
fi
proxy=$(apt-config shell http_proxy Acquire::http::Proxy)
[ -z "$proxy" ] || eval "export $proxy"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/weft-fabric2.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
# Before a command: its mounts and its processes end with it.
apart=(unshare --mount --pid --fork --kill-child)

echo "fabric2.sh: making a root of $suite from $mirror"
timeout -k 10 900 "${apart[@]}" debootstrap --variant=minbase --include=libfabric-dev,libfabric1,ibverbs-providers \
  "$suite" "$root" "$mirror" >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
echo "fabric2.sh: $(chroot "$root" dpkg-query -W libfabric1)"

# Its headers alone: the rest is this machine's.
mkdir "$work/include"
ln -s "$root/usr/include/rdma" "$work/include/rdma"
for tag in '' -DWEFT_EFA; do
  gcc -std=gnu11 -D_GNU_SOURCE "-I$work/include" $tag -Wall -Wextra -Wconversion -Werror -O2 -c -o "$work/shim.o" fabric/shim.c
done
echo "fabric2.sh: the shim compiles against its headers"

# inside BINARY: runs fabric's tests in the root.
inside() {
  timeout -k 10 300 "${apart[@]}" bash -ec '
    mount -t proc proc "$1/proc"
    mount -t tmpfs tmpfs "$1/dev/shm"
    mount --bind /sys "$1/sys"
    WEFT_REQUIRE=fabric chroot "$1" /tmp/fabric.test -test.timeout 240s' -- "$root"
}
mkdir -p "$root/dev/shm"
export CGO_ENABLED=1
for headers in '' "-I$work/include"; do
  CGO_CFLAGS="-O2 -g $headers" go test -c -tags nosymbolizer -o "$root/tmp/fabric.test" ./fabric
  whose=its
  [ -n "$headers" ] || whose="this machine's"
  echo "fabric2.sh: fabric's tests, built against $whose headers"
  inside
done
