package fabricrail_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

// TestCaps is of what a rail says of itself but for what Config says; the conformance suite tries most of it.
func TestCaps(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	got := open(t, local(), 1).rail.Caps()
	require.GreaterOrEqual(t, got.MaxLength, uint64(1<<30))
	got.MaxLength = 0
	require.Equal(t, rail.Caps{MaxBatch: 32, MaxImmediates: 256, MaxSend: 592, Completion: rail.Delivered, ImmSource: true, Read: true,
		DeathBy: rail.ByHeartbeat | rail.ByProcess | rail.ByTransport, DeathWithin: 13 * time.Second, CancelProof: true, Recalls: true,
		Fences: true}, got)
	got = open(t, fabricrail.Datagrams(local()), 2).rail.Caps()
	got.MaxLength = 0
	require.Equal(t, rail.Caps{MaxBatch: 32, MaxImmediates: 256, MaxSend: 592, Completion: rail.Delivered, ImmSource: true, Read: true,
		Atomics: true, DeathBy: rail.ByHeartbeat | rail.ByProcess, DeathWithin: 13 * time.Second, CancelProof: true}, got)
}

// TestImmediatesNameTheirSender has two senders send the same.
func TestImmediatesNameTheirSender(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b, c := open(t, local(), 1), open(t, local(), 2), open(t, local(), 3)
	memory := make([]byte, 64)
	keys, err := c.rail.Register(memory, rail.RemoteWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, keys.Close()) }()
	for i, from := range []*end{a, b} {
		to := from.connect(c)
		n, err := from.rail.Post(to, []rail.Op{{Kind: rail.Write, HasImm: true, Imm: 7, RemoteAddr: keys.RemoteAddr(),
			RemoteKey: keys.RemoteKey()}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		e := await(rail.Immediate, c, from)
		require.EqualValues(t, 7, e.Imm)
		require.EqualValues(t, i+1, c.infos[e.Peer].Incarnation[0], "who it was")
	}
}

// writer is a process that connects, writes once when it is told to, prints whether that completed within 0.3 s, and waits
// to be killed. Its arguments are the target's address, memory and key, and the length.
func writer(args []string) int {
	fmt.Println(write(args))
	select {}
}

func write(args []string) (what string) {
	var numbers [3]uint64
	for i := range numbers {
		numbers[i], _ = strconv.ParseUint(args[1+i], 10, 64)
	}
	address, _ := hex.DecodeString(args[0])
	r, err := local().Open(rail.Incarnation{9})
	if err != nil {
		return err.Error()
	}
	source := bytes.Repeat([]byte{0xa5}, int(numbers[2]))
	keys, err := r.Register(source, rail.LocalOnly)
	if err != nil {
		return err.Error()
	}
	to, err := r.Connect(time.Now(), address, time.Now().Add(rdmatest.Deadline(patience)))
	if err != nil {
		return err.Error()
	}
	seen := func(kind rail.EventKind, limit time.Duration) bool {
		var events [8]rail.Event
		for end := time.Now().Add(limit); time.Now().Before(end); {
			n, _ := r.Turn(time.Now(), events[:])
			for _, e := range events[:n] {
				if e.Kind == kind && e.Err == nil {
					return true
				}
			}
		}
		return false
	}
	if !seen(rail.PeerUp, rdmatest.Deadline(patience)) {
		return "not up"
	}
	fmt.Println("up")
	_, _ = fmt.Scanln() // until the target has stopped taking turns
	if n, err := r.Post(to, []rail.Op{{Kind: rail.Write, LocalAddr: mem.Addr(source), LocalKey: keys.LocalKey(),
		RemoteAddr: numbers[0], RemoteKey: numbers[1], Length: numbers[2]}}); n != 1 {
		return fmt.Sprint("not posted: ", err)
	}
	if seen(rail.Completed, 300*time.Millisecond) {
		return "completed"
	}
	return "pending"
}

// TestCompletedIsInPlace: a write completes at its writer only once its bytes are in the memory of the target, here one that takes
// no turns and whose writer is killed.
func TestCompletedIsInPlace(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, size := range []int{1, 4096, 300_000} {
		b := open(t, local(), 2)
		dest := make([]byte, size)
		keys, err := b.rail.Register(dest, rail.RemoteWrite)
		require.NoError(t, err)
		child := rdmatest.StartChild(t, "writer", hex.EncodeToString(b.rail.Address()),
			fmt.Sprint(keys.RemoteAddr()), fmt.Sprint(keys.RemoteKey()), fmt.Sprint(size))
		up := make(chan string, 1)
		go func() {
			line, err := child.ReadLine(patience)
			up <- fmt.Sprint(line, err)
		}()
		for len(up) == 0 {
			b.turn()
		}
		require.Equal(t, "up<nil>", <-up)
		require.NoError(t, child.WriteLine("", patience))
		line, err := child.ReadLine(patience)
		require.NoError(t, err)
		child.Kill()
		require.Error(t, child.Wait(patience))
		t.Logf("%d bytes: %s", size, line)
		want := bytes.Repeat([]byte{0xa5}, size)
		if line == "completed" {
			require.True(t, bytes.Equal(want, dest), "%d bytes completed, and did not come", size)
		} else {
			require.Equal(t, "pending", line)
		}
		require.NoError(t, keys.Close())
	}
}
