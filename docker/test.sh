#!/bin/bash
# The soft-RoCE tier (rxe/test.sh, with its COUNT and RUN) in a container of this working tree: without privileges and
# without /dev/kvm, in the QEMU machine; where this machine has an RDMA device, on that. Without a Docker engine it says
# so and succeeds. The build needs the network only where the base image lacks packages, the container never.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
count=${COUNT:-1}

if ! docker info >/dev/null 2>&1; then
  echo "test-docker: skipped: no Docker engine answers here ('docker info' fails)"
  exit 0
fi

context=$(mktemp -d "${TMPDIR:-/var/tmp}/weft-docker.XXXXXX")
container=weft-rxe-$$
running=''
clean_up() {
  [ -z "$running" ] || kill "$running" 2>/dev/null || true
  docker rm -f "$container" >/dev/null 2>&1 || true
  rm -rf "$context"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# limited SECONDS COMMAND…: in the background and waited for, so that a signal ends it at once instead of after it.
limited() {
  local limit code=0
  limit=$(scripts/scaled.sh "$1")
  shift
  timeout -k 10 "$limit" "$@" &
  running=$!
  wait "$running" || code=$?
  running=''
  [ $code -ne 124 ] || echo "test-docker: the time limit of $limit s ended $1 $2" >&2
  return $code
}

limited 1200 "$here/base.sh"

kernel=$(docker/rxe/kernel.sh)
mkdir "$context/src"
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$context/src"
(cd "$context/src" && go mod vendor)
cp -a --reflink=auto "$(go env GOROOT)" "$context/go"
cp -a --reflink=auto "$kernel" "$context/kernel"

# A base image that comes from a registry lacks packages, and the build fetches them.
network=none
mapfile -t packages < <(scripts/deps.sh --list)
docker run --rm --network none debian:bookworm-slim dpkg-query -W "${packages[@]}" >/dev/null 2>&1 || network=default
limited 1200 docker build --quiet --network "$network" --tag weft-rxe --file docker/Dockerfile.rxe "$context" >/dev/null
docker image prune --force --filter label=weft-rxe >/dev/null # of older working trees

options=(--network none)
[ ! -e /dev/infiniband ] || options=(--device=/dev/infiniband --ulimit memlock=-1 --network host)
limited $((600 + 120 * count)) docker run --rm --name "$container" "${options[@]}" \
  --env COUNT="$count" --env RUN="${RUN:-.}" weft-rxe
