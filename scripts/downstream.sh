#!/bin/bash
# Builds a throw-away module that requires this one as a stranger's would, since what `go build` sees of a module in the
# cache or under vendor/ is less than what lies here: no folder without Go files but what csrc.go embeds. The module is
# HEAD, from a file proxy; what it needs itself comes from this machine's module cache.
set -euo pipefail
cd "$(dirname "$0")/.."

module=github.com/weftrdma/weft version=v0.0.0
go list -deps ./fabric ./verbs ./transferengine/verbsrail >/dev/null # fills the module cache
cache=$(go env GOMODCACHE)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
served=$work/proxy/$module/@v
mkdir -p "$served" "$work/app"
echo "{\"Version\": \"$version\", \"Time\": \"2000-01-01T00:00:00Z\"}" >"$served/$version.info"
git show HEAD:go.mod >"$served/$version.mod"
# A module's zip holds none of the modules nested in it.
mapfile -t nested < <(git ls-tree -r --name-only HEAD | sed -n 's|/go\.mod$||p')
git archive --format=zip --prefix="$module@$version/" -o "$served/$version.zip" HEAD -- . "${nested[@]/#/:!}"

export GOPROXY=file://$work/proxy,file://$cache/cache/download GOSUMDB=off GOFLAGS=-modcacherw GOWORK=off
export GOMODCACHE=$work/modules
cd "$work/app"
cat >main.go <<'EOF'
// Command app asks the bindings what this machine has.
package main

import (
	"fmt"

	"github.com/weftrdma/weft/fabric"
	_ "github.com/weftrdma/weft/transferengine/verbsrail"
	"github.com/weftrdma/weft/verbs"
)

func main() {
	devices, err := verbs.Devices()
	fmt.Println("app: devices:", devices, "error:", err)
	version, err := fabric.LibraryVersion()
	fmt.Println("app: libfabric:", version, "error:", err)
}
EOF
go mod init example.com/app 2>/dev/null
go mod edit -require "$module@$version"

echo "downstream.sh: from the module cache"
go build -mod=mod -o app .
./app

echo "downstream.sh: vendored"
go mod vendor
go build -mod=vendor -o app-vendored .
./app-vendored

# The bindings are in the program, and their libraries are not: they are opened when a device is asked for, so that a program
# starts on a machine without it.
if [ "$(go tool nm app-vendored | grep -cwE 'weft_verbs_load|weft_fi_load')" -ne 2 ]; then
  echo "downstream.sh: the program was built without a binding: is there a C compiler?" >&2
  exit 1
fi
if readelf -d app-vendored | grep NEEDED | grep -E 'ibverbs|rdmacm|fabric'; then
  echo "downstream.sh: the program is linked with an RDMA library" >&2
  exit 1
fi
