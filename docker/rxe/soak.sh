#!/bin/bash
# The conformance suite of rails on soft-RoCE with 100 kills and 1,000 connects.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."

limit=$("$here/../../scripts/scaled.sh" 1200)
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-soak-rxe.XXXXXX")
trap 'rm -rf "$work"' EXIT
go test -c -o "$work/verbsrail.test" ./transferengine/verbsrail
cat >"$work/inside.sh" <<INSIDE
cd transferengine/verbsrail && WEFT_SOAK=1 "$work/verbsrail.test" -test.v -test.run TestConformance -test.timeout ${limit}s
INSIDE
WEFT_REQUIRE=verbs "$here/run.sh" --time "$((limit + 60))" bash "$work/inside.sh"
