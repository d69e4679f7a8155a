#!/bin/bash
# Second program of the guest, on the overlay of the host's root: brings up rxe0, runs the command, leaves its exit status
# and the kernel log in /run/weft (the one folder shared with the host for writing) and switches the machine off.
# /run/weft/boot.env holds what guest.sh decided; /run/weft/command.sh is the command with its folder and environment.
# shellcheck source=/dev/null
. /run/weft/boot.env
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

finish() {
  dmesg >/run/weft/kernel.log 2>/dev/null
  echo "$1" >/run/weft/status
  echo o >/proc/sysrq-trigger
  sleep 60
}

# What the kernel cannot show otherwise: where a crashing program's core file goes, with its name and process.
echo '/run/weft/core.%e.%p' >/proc/sys/kernel/core_pattern
ulimit -c unlimited
ulimit -l unlimited
echo rxe >/proc/sys/kernel/hostname
ip link set lo up
if [ -n "$WEFT_PEER_NETDEV" ]; then
  ip link set "$WEFT_PEER_NETDEV" mtu 4500
  "$WEFT_RXE/device.sh" up "$WEFT_PEER_NETDEV" "$WEFT_ADDRESS"
else
  "$WEFT_RXE/device.sh" up weft0 "$WEFT_ADDRESS"
fi || finish 125

if [ -n "$WEFT_SHELL" ]; then
  # Opened once: the size of a terminal that nobody has open is forgotten.
  # shellcheck disable=SC2086 # "rows ROWS columns COLUMNS"
  { stty $WEFT_SHELL; setsid -c bash /run/weft/command.sh; } </dev/hvc0 >/dev/hvc0 2>&1
else
  bash /run/weft/command.sh >"$(echo /dev/vport*p1)" 2>&1 </dev/null
fi
finish $?
