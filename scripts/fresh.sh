#!/bin/bash
# `make demo` and `make test`, the README's two commands, in a bare Debian root that has Go, git and make and nothing else
# of what they need: no package, no module and no build result of this machine helps them. Needs root, about 4 GiB under
# ${TMPDIR:-/var/tmp}, and whatever this machine's apt and Go fetch their packages from; takes some minutes. Everything
# that it makes is gone when it ends, however it ends.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
  echo "fresh.sh: chroot and mount need root: run 'sudo make test-fresh'" >&2
  exit 1
fi
PATH=$PATH:/usr/sbin:/sbin

root=$(mktemp -d "${TMPDIR:-/var/tmp}/weft-fresh.XXXXXX")
chmod 755 "$root" # as / has to be: apt fetches as a user of its own
running=''
clean_up() {
  if [ -n "$running" ]; then
    kill "$running" 2>/dev/null || true
    wait "$running" 2>/dev/null || true
  fi
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Before a command: its mounts and its processes end with it.
apart=(unshare --mount --pid --fork --kill-child)

# stage NAME SECONDS COMMAND…: runs a command under a time limit and says how long it took. In the background and waited
# for, so that a signal ends it at once instead of after it.
stage() {
  local name=$1 limit begin=$SECONDS code=0
  limit=$(scripts/scaled.sh "$2")
  shift 2
  echo "fresh.sh: $name"
  timeout -k 10 "$limit" "$@" &
  running=$!
  wait "$running" || code=$?
  running=''
  if [ $code -ne 0 ]; then
    [ $code -ne 124 ] || echo "fresh.sh: the time limit of $limit s ended it" >&2
    echo "fresh.sh: $name failed (exit status $code)" >&2
    exit $code
  fi
  echo "fresh.sh: $name took $((SECONDS - begin)) s"
}

# The root comes from the mirror that this machine's apt uses, and its apt is set up like this machine's: the same sources,
# keys and ways to fetch, but none of the hooks.
make_root() {
  local suite mirror proxy include=git,make file
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | sed -n 1p)
  if [ -z "$mirror" ]; then
    echo "fresh.sh: apt knows no mirror of $suite: run 'apt-get update'" >&2
    exit 1
  fi
  proxy=$(apt-config shell http_proxy Acquire::http::Proxy)
  [ -z "$proxy" ] || eval "export $proxy"
  case $mirror in https:*) include+=,ca-certificates ;; esac
  stage "debootstrap of $suite" 900 \
    "${apart[@]}" debootstrap --variant=minbase --include="$include" "$suite" "$root" "$mirror"

  rm -f "$root/etc/apt/sources.list"
  for file in sources.list sources.list.d trusted.gpg trusted.gpg.d keyrings auth.conf auth.conf.d; do
    [ ! -e "/etc/apt/$file" ] || cp -a "/etc/apt/$file" "$root/etc/apt/"
  done
  cp -a /usr/share/keyrings/. "$root/usr/share/keyrings/"
  apt-config dump | grep '^Acquire' >"$root/etc/apt/apt.conf.d/99host"
  # Certificates of this machine's own are trusted as soon as ca-certificates is installed.
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}

# What a command in the root sees of this machine's environment: how to reach the network, and where Go fetches modules.
environment=(
  HOME=/root LANG=C.UTF-8 "TERM=${TERM:-dumb}"
  PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [ -z "${!name:-}" ] || environment+=("$name=${!name}")
done
for name in GOPROXY GONOPROXY GOSUMDB GONOSUMDB GOPRIVATE GOINSECURE GOTOOLCHAIN GOFLAGS; do
  environment+=("$name=$(go env "$name")")
done

# Before a command: runs it in the clone.
in_root=(
  "${apart[@]}" bash -euc '
    root=$1; shift
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" "$@"
  ' bash "$root" env -i -C /root/weft "${environment[@]}"
)

begin=$SECONDS
make_root
cp -a "$(go env GOROOT)/." "$root/usr/local/go"
git clone --quiet --no-hardlinks . "$root/root/weft"
stage "make demo" 1800 "${in_root[@]}" make demo
stage "make test" 1800 "${in_root[@]}" make test
echo "fresh.sh: all of it took $((SECONDS - begin)) s and $(du -sxm "$root" | cut -f1) MiB"
