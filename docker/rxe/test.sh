#!/bin/bash
# The soft-RoCE tier: builds the tests of every package that asks for an RDMA device, runs them where there is one
# (run.sh), and counts. COUNT repeats each test in one boot, RUN selects by regular expression as in `go test -run`.
# It passes only if as many tests passed as `-list` names, so that nothing is skipped or lost unseen.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
count=${COUNT:-1} run=${RUN:-.}
echo "soft-RoCE tier: the tests that need an RDMA device (about 4 minutes on an idle machine, 3 of them in the QEMU machine)"
# It bounds a hang: five times what the tests take in the QEMU machine, which emulates its processors.
limit=$("$here/../../scripts/scaled.sh" $((600 + 300 * count)))

work=$(mktemp -d "${TMPDIR:-/tmp}/weft-test-rxe.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The tag leaves out tests that need no device and take long: the unit tier has them.
mapfile -t packages < <(grep -rlE 'rdmatest\.(Verbs|Device)\b' --include='*_test.go' \
  --exclude-dir='.?*' --exclude-dir=vendor --exclude-dir=rdmatest . | xargs -r -n1 dirname | sort -u)
expected=0
for package in "${packages[@]}"; do
  go test -tags rxe -c -o "$work/${package//\//_}.test" "$package"
  listed=$("$work/${package//\//_}.test" -test.list "${run%%/*}" | grep -cE '^(Test|Fuzz|Example)' || true)
  expected=$((expected + listed * count))
  echo "$package" >>"$work/packages"
done
[ "$expected" -gt 0 ] || { echo "test.sh: no test of a package that needs verbs matches RUN=$run" >&2; exit 1; }

# A package ends itself before the machine is ended, and then says where its goroutines stand.
cat >"$work/inside.sh" <<INSIDE
status=0
while read -r package; do
  echo "=== \$package"
  left=\$(($limit - SECONDS - 60))
  (cd "\$package" && "$work/\${package//\//_}.test" -test.v -test.count=$count -test.run $(printf %q "$run") -test.timeout "\$((left > 1 ? left : 1))s") || status=1
done <"$work/packages"
[ -z "\${WEFT_GUEST:-}" ] || "$here/paths.sh" || status=1
exit \$status
INSIDE

# running names the tests that had begun and not ended in the log, which may end anywhere.
running() {
  awk '
    $1 == "===" && NF == 2 && $2 ~ /^\.\// { package = $2; delete begun; n = 0 }
    $1 == "===" && $2 == "RUN" { begun[$3] = ++n }
    $1 == "---" { delete begun[$3] }
    END { for (name in begun) if (begun[name] > last) { last = begun[name]; which = name } if (which) print package " " which }
  ' "$work/log"
}

code=0
WEFT_REQUIRE=verbs "$here/run.sh" --time "$limit" bash "$work/inside.sh" 2>&1 | tee "$work/log" || code=$?
tally() { grep -cE "^--- $1: " "$work/log" || true; }
passed=$(tally PASS) failed=$(tally FAIL) skipped=$(tally SKIP)
if [ "$passed" -ne "$expected" ] && [ $code -eq 0 ]; then
  echo "rxe: $passed tests passed, but the packages name $expected"
  code=1
fi
[ "$failed" -eq 0 ] || grep -E '^--- FAIL: ' "$work/log" | sed 's/^--- FAIL: /rxe: failed: /'
if [ $code -eq 124 ]; then
  at=$(running)
  echo "rxe: the limit of $limit s came while this ran: ${at:-no test}"
fi
echo "rxe: $passed passed, $failed failed, $skipped skipped"
exit "$code"
