#!/bin/bash
# Prints the folder of an unpacked Debian generic kernel (boot/vmlinuz-VERSION and lib/modules/VERSION), fetching it once.
#
# The generic flavour is needed: the cloud flavour has no rdma_rxe. The package is only unpacked, never installed, so
# neither root nor a change of the host is needed. WEFT_CACHE names the cache (default: .cache in the repository).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${WEFT_CACHE:-$(cd "$here/../.." && pwd)/.cache}
kernel=$cache/kernel

found() { [ -f "$kernel/complete" ] && echo "$kernel"; }
! found || exit 0

arch=$(dpkg --print-architecture)
if [ "$arch" != amd64 ]; then
  echo "kernel.sh: no guest for $arch: the soft-RoCE machine is built for amd64 hosts" >&2
  exit 2
fi
package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-/ {print $2; exit}')
if [ -z "$package" ]; then
  echo "kernel.sh: apt knows no linux-image-amd64: run 'make deps' (it refreshes the package lists)" >&2
  exit 2
fi

mkdir -p "$cache"
exec {lock}>"$cache/kernel.lock"
flock "$lock" # of two runs that find none, one fetches it
! found || exit 0
echo "kernel.sh: fetching $package for the soft-RoCE machine, once (some 70 MB)" >&2
work=$(mktemp -d "$cache/kernel.XXXXXX")
trap 'rm -rf "$work"' EXIT
(
  cd "$work"
  timeout 600 apt-get -o APT::Sandbox::User=root download -qq "$package" || timeout 600 apt-get -o APT::Sandbox::User=root download -qq "$package-unsigned"
) >&2
dpkg -x "$work"/linux-image-*.deb "$work/tree"
version=$(basename "$work"/tree/lib/modules/*)
depmod -b "$work/tree" "$version"
echo "$version" >"$work/tree/complete"
chmod -R a+rX "$work/tree"
rm -rf "$kernel"
mv "$work/tree" "$kernel"
echo "$kernel"
