#!/bin/bash
# Compiles each binding's shim with every warning an error, looks at what other objects can see of it, and runs the C
# tests, csrc/test/*_test.c, under ASan and UBSan. Building the module needs none of this. With names ("verbs_post") it runs
# only the C tests of these names.
set -euo pipefail
cd "$(dirname "$0")/.."

cc=(gcc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wconversion -Werror)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sources=("${@/#/csrc/test/}")
sources=("${sources[@]/%/_test.c}")
shims=()
if [ $# -eq 0 ]; then
  sources=(csrc/test/*_test.c)
  shims=(*/shim.c internal/cgotest/shim.c)
fi

for shim in "${shims[@]}"; do
  echo "csrc.sh: $shim"
  "${cc[@]}" -O2 -c -o "$work/shim.o" "$shim"
  # What a header's inlines need under a library's own name is hidden, so that no other object takes it for the library's.
  visible=$(readelf -sW "$work/shim.o" | awk '$5 == "GLOBAL" && $6 == "DEFAULT" && $7 != "UND" && $8 !~ /^weft_/ {print $8}')
  if [ -n "$visible" ]; then
    printf "csrc.sh: %s: neither hidden nor named weft_: %s\n" "$shim" "${visible//$'\n'/ }" >&2
    exit 1
  fi
done

for source in "${sources[@]}"; do
  echo "csrc.sh: $source"
  "${cc[@]}" -g -fsanitize=address,undefined -fno-sanitize-recover=all -o "$work/test" "$source" -ldl -lpthread
  timeout 60 "$work/test"
done
