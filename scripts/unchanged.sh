#!/bin/bash
# Runs a command and fails, with the difference, if it changed the working tree: unchanged.sh COMMAND [ARGUMENT…]
set -euo pipefail
cd "$(dirname "$0")/.."

state() { git status --porcelain; git diff HEAD; }
before=$(state)
"$@"
diff <(echo "$before") <(echo "$(state)")
