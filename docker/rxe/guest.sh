#!/bin/bash
# Runs a command in a QEMU machine that has the soft-RoCE device rxe0 (10.9.0.1 unless told otherwise), under plain
# software emulation: neither /dev/kvm nor privileges are needed. See README.md in this folder.
#
#   guest.sh [--time SECONDS] [--memory MIB] [--keep DIR] [--shell]
#            [--peer listen=HOST:PORT|connect=HOST:PORT] [--address A/BITS] COMMAND [ARGUMENT…]
#
# The guest sees the host's root (read-only, under a RAM overlay), the same working folder, and the environment's PATH,
# HOME, GO* and WEFT_* variables. Standard output and error arrive merged on standard output; the exit status is the
# command's; 124 when the time limit ended the guest, 125 when it did not get as far as the command, 126 when its kernel
# log shows a fault. --keep makes DIR the folder that the guest sees as $WEFT_OUT, while it runs and with what is left
# in it: what the command wrote, the console, the kernel log, core files; and qemu.pid while the guest runs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

limit=600 memory=2048 keep='' shell='' peer='' address=10.9.0.1/24
while [ $# -gt 0 ]; do
  case $1 in
  --time) limit=$2; shift 2 ;;
  --memory) memory=$2; shift 2 ;;
  --keep) keep=$2; shift 2 ;;
  --peer) peer=$2; shift 2 ;;
  --address) address=$2; shift 2 ;;
  --shell) shell=yes; shift ;;
  --) shift; break ;;
  -*) echo "guest.sh: unknown option $1" >&2; exit 2 ;;
  *) break ;;
  esac
done
[ $# -gt 0 ] || [ -n "$shell" ] || { echo "guest.sh: no command given" >&2; exit 2; }
for tool in qemu-system-x86_64 busybox cpio modprobe depmod ip rdma; do
  PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || { echo "guest.sh: $tool is missing: run 'make deps'" >&2; exit 2; }
done
PATH=$PATH:/usr/sbin:/sbin

kernel=$("$here/kernel.sh")
version=$(cat "$kernel/complete")
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-guest.XXXXXX")
out=${keep:-$work/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
qemu=''
# shellcheck disable=SC2317 # the trap calls it
clean_up() {
  if [ -n "$qemu" ]; then
    kill "$qemu" 2>/dev/null || true
    wait "$qemu" 2>/dev/null || true
  fi
  rm -f "$out"/{boot.env,command.sh,qemu.pid}
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
rm -f "$out"/{status,kernel.log,console.log} "$out"/core.*

# The initial RAM disk: busybox, init, and the modules in the order of their dependencies.
build_initrd() {
  local root=$work/root
  mkdir -p "$root"/{bin,proc,sys,dev,modules}
  cp "$(command -v busybox)" "$root/bin/busybox"
  cp "$here/init" "$root/init"
  local module
  for module in virtio_pci virtio_net virtio_console 9pnet_virtio 9p overlay; do
    modprobe -d "$kernel" -S "$version" --show-depends "$module" | sed -nE 's/^insmod (.*\.ko[.a-z]*) .*/\1/p'
  done | awk '!seen[$0]++' | while read -r file; do
    cp "$file" "$root/modules/"
    basename "$file" >>"$root/modules/order"
  done
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd.gz"
}
build_initrd

terminal=''
if [ -n "$shell" ]; then
  read -r rows columns < <(stty size 2>/dev/null || echo 24 80)
  terminal="rows $rows columns $columns"
fi
{
  echo "WEFT_KERNEL=$(printf %q "$kernel")"
  echo "WEFT_STAGE2=$(printf %q "$here/stage2.sh")"
  echo "WEFT_RXE=$(printf %q "$here")"
  echo "WEFT_ADDRESS=$address"
  echo "WEFT_PEER_NETDEV=${peer:+eth0}"
  echo "WEFT_SHELL='$terminal'"
} >"$out/boot.env"
{
  while IFS= read -r -d '' entry; do
    case ${entry%%=*} in
    PATH | HOME | TERM | LANG | GO* | CGO_* | WEFT_*) echo "export ${entry%%=*}=$(printf %q "${entry#*=}")" ;;
    esac
  done < <(env -0)
  echo "export WEFT_OUT=/run/weft WEFT_GUEST=1"
  echo "cd $(printf %q "$PWD")"
  if [ -n "$shell" ] && [ $# -eq 0 ]; then echo "exec bash -i"; else echo "exec$(printf ' %q' "$@")"; fi
} >"$out/command.sh"

# The kernel distrusts the emulated TSC and falls back to the HPET, whose every reading leaves the emulated processor: with
# it a program that looks at the clock, as Go's scheduler does all the time, is measured at half its speed.
clock='tsc=reliable clocksource=tsc'
options=(
  -accel "tcg,thread=multi" -cpu max -smp 2 -m "$memory" -nodefaults -no-user-config -display none -no-reboot
  -kernel "$kernel/boot/vmlinuz-$version" -initrd "$work/initrd.gz"
  -append "console=ttyS0 panic=-1 loglevel=5 oops=panic net.ifnames=0 $clock"
  -serial "file:$out/console.log" -pidfile "$out/qemu.pid"
  -virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"
  -virtfs "local,path=${out//,/,,},mount_tag=out,security_model=none"
  -device virtio-serial-pci
  -device virtio-rng-pci
)
if [ -n "$peer" ]; then
  mac=52:54:00:09:00:$(printf %02x "$(echo "${address%/*}" | cut -d. -f4)")
  options+=(-netdev "socket,id=peer,$peer" -device "virtio-net-pci,netdev=peer,mac=$mac,host_mtu=4500")
fi
if [ -n "$shell" ]; then
  options+=(-chardev "stdio,id=out,signal=off" -device "virtconsole,chardev=out")
else
  options+=(-chardev "stdio,id=out" -device "virtserialport,chardev=out")
fi

# In the background and waited for, so that a signal to this script ends the guest at once instead of after it.
if [ -n "$shell" ]; then
  qemu-system-x86_64 "${options[@]}" <&0 &
else
  # Its standard input is a pipe that nobody writes or closes: at its end QEMU would call the port disconnected.
  mkfifo "$work/stdin"
  timeout -k 5 "$limit" qemu-system-x86_64 "${options[@]}" <>"$work/stdin" &
fi
qemu=$!
code=0 begin=$SECONDS
wait "$qemu" || code=$?
qemu='' timed_out=''
case $code in
124 | 137) [ $((SECONDS - begin)) -lt "$limit" ] || timed_out=yes ;; # QEMU may have been killed by somebody else
esac

# Case-sensitive on purpose: ordinary boots print other lines with "bug" or "warning" in them.
fault='BUG:|WARNING:|refcount_t|Oops|soft lockup|hung task|blocked for more than'
if grep -hE "$fault" "$out/console.log" "$out/kernel.log" 2>/dev/null >"$work/faults"; then
  echo "guest.sh: the guest's kernel log shows faults:" >&2
  sort -u "$work/faults" | head -20 >&2
  tail -60 "$out/console.log" >&2
  exit 126
fi
if [ -n "$timed_out" ]; then
  echo "guest.sh: the time limit of $limit s ended the guest${keep:+; its console is in $keep}" >&2
  exit 124
fi
for core in "$out"/core.*; do
  [ ! -e "$core" ] || echo "guest.sh: a program crashed: $(basename "$core")${keep:+ in $keep}" >&2
done
if [ ! -f "$out/status" ]; then
  echo "guest.sh: the guest stopped before the command ended; the end of its console:" >&2
  tail -40 "$out/console.log" >&2
  exit 125
fi
exit "$(cat "$out/status")"
