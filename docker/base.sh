#!/bin/bash
# Makes sure that the image debian:bookworm-slim is there. Where no registry gives it, it is made of Debian packages, with
# every package of scripts/deps.sh already in it, so that what is built on it needs no network. That takes root, about
# two minutes and 1.5 GiB under ${TMPDIR:-/var/tmp}.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
suite=bookworm image=debian:bookworm-slim

! docker image inspect "$image" >/dev/null 2>&1 || exit 0
! timeout 120 docker pull -q "$image" >/dev/null 2>&1 || exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "base.sh: no registry gives $image, and debootstrap needs root: run 'sudo docker/base.sh' once" >&2
  exit 1
fi
# The mirror that this machine's apt uses, reached in the way that this machine's apt is told to.
# shellcheck disable=SC2016 # apt's own variable
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | sed -n 1p)
if [ -z "$mirror" ]; then
  echo "base.sh: no registry gives $image, and apt knows no Debian mirror: run 'apt-get update'" >&2
  exit 1
fi
proxy=$(apt-config shell http_proxy Acquire::http::Proxy)
[ -z "$proxy" ] || eval "export $proxy"

root=$(mktemp -d "${TMPDIR:-/var/tmp}/weft-base.XXXXXX")
running=''
clean_up() {
  [ -z "$running" ] || { kill "$running" 2>/dev/null || true; wait "$running" 2>/dev/null || true; }
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "base.sh: no registry gives $image: making it from $mirror's packages"
# In the background and waited for, so that a signal ends it at once instead of after it; its mounts and processes end
# with its namespaces.
PATH=$PATH:/usr/sbin:/sbin timeout -k 10 "$(scripts/scaled.sh 900)" unshare --mount --pid --fork --kill-child debootstrap --variant=minbase \
  --include="$(scripts/deps.sh --list | paste -sd,)" "$suite" "$root/root" "$mirror" >"$root/log" 2>&1 &
running=$!
code=0
wait "$running" || code=$?
running=''
if [ $code -ne 0 ]; then
  tail -20 "$root/log" >&2
  echo "base.sh: debootstrap failed (exit status $code; 124 is its time limit)" >&2
  exit 1
fi
rm -rf "$root"/root/var/cache/apt/archives/*.deb "$root"/root/var/lib/apt/lists/*
tar -C "$root/root" --one-file-system -c . | docker import --change 'CMD ["bash"]' - "$image" >/dev/null
