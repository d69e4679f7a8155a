//go:build linux

package verbs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// mapRepeatedly maps a file of so many bytes again and again, into one range of size bytes: memory for a region of any size
// that costs no more than the file.
func mapRepeatedly(t testing.TB, file, size int) []byte {
	t.Helper()
	fd, err := unix.MemfdCreate("weft-test", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, int64(file)))
	whole, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(whole)) })
	for at := 0; at < size; at += file {
		_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(&whole[at]), uintptr(min(file, size-at)),
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_POPULATE)
		require.NoError(t, err)
	}
	return whole
}

// A region of more than 4 GiB: nothing of it is cut, and a write and a read cross the boundary.
func TestRegionOverFourGiB(t *testing.T) {
	n := newNode(t)
	const four, size = 4 << 30, 4<<30 + 100<<20
	mem := mapRepeatedly(t, 64<<20, size)
	begin := time.Now()
	mr, err := n.pd.RegMR(mem, allAccess)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	took := time.Since(begin)
	t.Logf("registered %d bytes in %v", size, took) // 0.3 s on an emulated processor; 4 s and more if its pages must be faulted in
	require.Less(t, took, rdmatest.Deadline(4*time.Second))
	require.Equal(t, uint64(size), mr.Length())
	a, _ := n.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 8})
	local, localMR := n.region(t, 8192, verbs.AccessLocalWrite)
	fill(local, 1)
	n.post(t, a, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: mr.Addr() + four - 4096, RKey: mr.RKey()}, sge(localMR, 0, 8192))
	require.Equal(t, local, mem[four-4096:][:8192])
	want := append([]byte{}, local...)
	clear(local)
	n.post(t, a, verbs.SendWR{Opcode: verbs.OpRead, RemoteAddr: mr.Addr() + four - 4096, RKey: mr.RKey()}, sge(localMR, 0, 8192))
	require.Equal(t, want, local)
	// And with the region as the source: its local addresses have more than 32 bits of offset too.
	n.post(t, a, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: localMR.Addr(), RKey: n.remote(t, local)}, sge(mr, four-4096, 8192))
}

// remote registers memory again, with remote rights, and returns its key.
func (n *node) remote(t testing.TB, mem []byte) uint32 {
	t.Helper()
	mr, err := n.pd.RegMR(mem, allAccess)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	return mr.RKey()
}

func TestHugePages(t *testing.T) {
	n := newNode(t)
	const page = 2 << 20
	var mem []byte
	require.Eventually(t, func() bool {
		// Where nothing of this is allowed, what there is must do; where memory is in pieces, it is put together first.
		for file, value := range map[string]string{"compact_memory": "1", "nr_hugepages": "4"} {
			if err := os.WriteFile("/proc/sys/vm/"+file, []byte(value), 0); err != nil {
				t.Log(err)
			}
		}
		var err error
		mem, err = unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_HUGETLB)
		return err == nil
	}, 20*time.Second, 100*time.Millisecond, "two huge pages")
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	mr, err := n.pd.RegMR(mem[4096:len(mem)-4096], allAccess) // not at the boundary of a page
	require.NoError(t, err)
	defer func() { require.NoError(t, mr.Close()) }()
	a, _ := n.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 8})
	fill(mem[:page], 8)
	n.post(t, a, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: mr.Addr() + page, RKey: mr.RKey()}, sge(mr, 0, 1<<16))
	require.Equal(t, mem[4096:][:1<<16], mem[4096+page:][:1<<16])
}

func TestRelaxedOrderingIsAWish(t *testing.T) {
	n := newNode(t)
	for range 2 {
		mr, err := n.pd.RegMR(make([]byte, 4096), allAccess|verbs.AccessRelaxedOrdering)
		require.NoError(t, err, "granted, or refused and left out")
		require.Equal(t, allAccess, mr.Access()&^verbs.AccessRelaxedOrdering)
		require.NoError(t, mr.Close())
	}
}

// Memory of other kinds than an ordinary region: each is used, or the device's word that it has none is ErrUnsupported and
// nothing else; what cannot be is refused.
func TestMemoryOfOtherKinds(t *testing.T) {
	n := newNode(t)
	a, _ := n.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 8})
	mem, mr := n.region(t, 4096, allAccess)
	source, sourceMR := n.region(t, 4096, verbs.AccessLocalWrite)
	write := func(to *verbs.MR) {
		t.Helper()
		fill(source, byte(to.RKey()))
		n.post(t, a, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: to.Addr(), RKey: to.RKey()}, sge(sourceMR, 0, 64))
		require.Equal(t, source[:64], mem[:64])
	}
	_, err := n.pd.RegDMABuf(0, 0, 4096, 0, verbs.AccessLocalWrite)
	require.Error(t, err, "standard input is no dma-buf")
	_, err = n.pd.ImportMR(1 << 30)
	require.Error(t, err, "there is no such handle")
	if null, err := n.pd.AllocNullMR(); err == nil {
		require.NoError(t, null.Close())
	} else {
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
	iova, err := n.pd.RegMRIOVA(mem, mr.Addr()&4095|0x100000, allAccess)
	require.NoError(t, err)
	require.Equal(t, mr.Addr()&4095|0x100000, iova.Addr())
	write(iova)
	require.NoError(t, iova.Close())
	zero, err := n.pd.RegMR(mem, allAccess|verbs.AccessZeroBased)
	require.NoError(t, err)
	require.Zero(t, zero.Addr())
	write(zero)
	require.NoError(t, zero.Close())

	changed, err := n.pd.RegMR(mem, allAccess)
	require.NoError(t, err)
	closeAtEnd(t, changed)
	key := changed.RKey()
	if err := changed.ChangeAccess(verbs.AccessLocalWrite | verbs.AccessRemoteWrite); err != nil {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "unchanged")
		require.Equal(t, []any{key, allAccess}, []any{changed.RKey(), changed.Access()})
	}
	write(changed)
	extended, err := n.ctx.QueryExtended()
	require.NoError(t, err)
	if err := n.pd.Advise(verbs.AdvicePrefetch, true, []verbs.SGE{sge(mr, 0, 4096)}); extended.ODP == 0 {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		_, err = n.pd.RegMR(mem, verbs.AccessLocalWrite|verbs.AccessOnDemand)
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
}

// As an ordinary user with a low limit on locked memory, a registration is refused with the limit, the need and the fix.
func TestMemlock(t *testing.T) {
	device := rdmatest.Device(t)
	child := exec.CommandContext(t.Context(), "/proc/self/exe", device) // wherever that lies, and whoever may look there
	child.Env = append(os.Environ(), rdmatest.ChildVar+"=memlock")
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}} // drops CAP_IPC_LOCK
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "limit on locked memory of 64 KiB, needed are 1024 KiB")
	require.Contains(t, string(out), "ulimit -l unlimited")
	require.Contains(t, string(out), "is ErrMemlock and ENOMEM")
}

// registerOverLimit is what TestMemlock's child does.
func registerOverLimit(args []string) int {
	err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10})
	if err == nil {
		err = registerOn(args[0])
	}
	fmt.Println(err)
	if errors.Is(err, verbs.ErrMemlock) && errors.Is(err, syscall.ENOMEM) {
		fmt.Println("is ErrMemlock and ENOMEM")
		return 0
	}
	return 1
}

func registerOn(device string) error {
	ctx, err := verbs.Open(device)
	if err != nil {
		return err
	}
	defer ctx.Close()
	pd, err := ctx.AllocPD()
	if err != nil {
		return err
	}
	defer pd.Close()
	mr, err := pd.RegMR(make([]byte, 1<<20), verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	return mr.Close()
}

// While a child made by fork(2) shares this process's pages, what the device writes arrives here: neither the child's copy nor
// ours, made when we write, parts the region from its memory.
func TestForkSafety(t *testing.T) {
	n := newNode(t)
	require.NoError(t, verbs.ForkInit(), "does nothing where that is not needed")
	status, err := verbs.QueryFork()
	require.NoError(t, err)
	t.Log(status)
	require.Contains(t, []verbs.ForkStatus{verbs.ForkEnabled, verbs.ForkUnneeded}, status)
	const page = 4096
	mem, err := unix.Mmap(-1, 0, 16*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	fill(mem, 1)
	mr, err := n.pd.RegMR(mem, allAccess)
	require.NoError(t, err)
	defer func() { require.NoError(t, mr.Close()) }()
	a, _ := n.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 8})
	source, sourceMR := n.region(t, len(mem), verbs.AccessLocalWrite)
	fill(source, 2)

	child := fork(t)
	for i := 0; i < len(mem); i += page {
		mem[i] = 9 // takes the page away from the child, or from the region
	}
	n.post(t, a, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: mr.Addr(), RKey: mr.RKey()}, sge(sourceMR, 0, len(mem)))
	require.Equal(t, source, mem)
	fill(mem, 3)
	clear(source)
	n.post(t, a, verbs.SendWR{Opcode: verbs.OpRead, RemoteAddr: mr.Addr(), RKey: mr.RKey()}, sge(sourceMR, 0, len(mem)))
	require.Equal(t, mem, source)
	require.NoError(t, unix.Kill(child, unix.SIGKILL))
	_, err = unix.Wait4(child, nil, 0, nil)
	require.NoError(t, err)
}

// fork makes a child that shares all memory and sleeps: os/exec would not do, whose children borrow it and go on to another
// program at once.
func fork(t *testing.T) int {
	t.Helper()
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 { // the child, with one thread and no Go runtime: system calls alone
		syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		for {
			syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	require.Zero(t, errno)
	return int(pid)
}

func TestExtendedAttributesAndNumbers(t *testing.T) {
	n := newNode(t)
	if extended, err := n.ctx.QueryExtended(); err != nil {
		require.ErrorIs(t, err, errors.ErrUnsupported)
	} else {
		t.Logf("%+v", extended)
	}
	if _, err := n.ctx.Clock(); err != nil {
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
	key, err := n.ctx.PKey(1, 0)
	require.NoError(t, err)
	require.Equal(t, uint16(0xffff), key)
	index, err := n.ctx.PKeyIndex(1, key)
	require.NoError(t, err)
	require.Zero(t, index)
	devices, err := verbs.Devices()
	require.NoError(t, err)
	require.GreaterOrEqual(t, devices[0].Index, -1)
	require.Positive(t, n.ctx.FD())
	require.Positive(t, n.ctx.Vectors())
}

// The device of another context, by a duplicate of its descriptor, as a process does that it was passed to.
func TestImportDevice(t *testing.T) {
	n := newNode(t)
	fd, err := unix.Dup(n.ctx.FD())
	require.NoError(t, err)
	ctx, err := verbs.ImportDevice(fd)
	if err != nil {
		require.NoError(t, unix.Close(fd))
		require.True(t, errors.Is(err, errors.ErrUnsupported) || strings.Contains(err.Error(), "ibv_import_device"), "%v", err)
		t.Log(err)
		return
	}
	require.Equal(t, n.ctx.Name(), ctx.Name())
	require.NoError(t, ctx.Close())
}
