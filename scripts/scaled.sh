#!/bin/bash
# Prints SECONDS scaled by how much slower this machine is now than an idle one of the kind on which the limits were written:
# by a fixed loop on every processor at once. Limits bound hangs, not speed; each tier scales its own when it starts.
# internal/rdmatest does the same for the tests themselves.
#
#   scaled.sh SECONDS
set -euo pipefail
[[ ${1:-} =~ ^[0-9]+$ ]] || { echo "usage: scaled.sh SECONDS" >&2; exit 2; }
idle=180000 # what the loop takes on 2 idle cores at about 3 GHz, in microseconds
most=30     # a measure that met a pause must not make a limit endless

loop() { local i; for ((i = 0; i < 100000; i++)); do :; done; }
begin=${EPOCHREALTIME/[.,]/}
for ((cpu = $(nproc); cpu > 0; cpu--)); do loop & done
wait
taken=$((${EPOCHREALTIME/[.,]/} - begin))
((taken > idle)) || taken=$idle
((taken < most * idle)) || taken=$((most * idle))
echo $(($1 * taken / idle))
