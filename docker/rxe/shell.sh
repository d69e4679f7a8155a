#!/bin/bash
# A shell, or COMMAND with a terminal, in the soft-RoCE machine; leaving it switches the machine off.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -t 0 ]; then
  saved=$(stty -g)
  trap 'stty "$saved"' EXIT
  stty raw -echo
fi
"$here/guest.sh" --shell "$@"
