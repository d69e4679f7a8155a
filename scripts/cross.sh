#!/bin/bash
# Builds and vets every package, commands and tests included, for each platform that the module supports, without cgo:
# on all of them but linux/amd64 and linux/arm64 with cgo, the bindings answer errors.ErrUnsupported.
set -euo pipefail
cd "$(dirname "$0")/.."

for platform in linux/amd64 linux/arm64 darwin/arm64; do
  echo "cross.sh: $platform"
  export CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/}
  go build ./...
  go vet ./...
done
