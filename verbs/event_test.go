//go:build linux

package verbs_test

import (
	"context"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// awaitEvent returns the next event of the type.
func awaitEvent(t testing.TB, ctx *verbs.Context, typ verbs.EventType) verbs.AsyncEvent {
	t.Helper()
	deadline := rdmatest.Context(t, 20*time.Second)
	for {
		select {
		case event := <-ctx.Events():
			if event.Type == typ {
				return event
			}
		case <-deadline.Done():
			t.Fatalf("no event %v", typ)
		}
	}
}

// ip changes the network of the soft-RoCE machine.
func ip(t testing.TB, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", args, out)
}

// eventually waits for the GID table to become so.
func (n *node) eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	require.Eventually(t, so, rdmatest.Deadline(20*time.Second), 5*time.Millisecond, what)
}

// The port goes down and comes up, and an address goes and comes back at another place of the table, as after a link flap:
// both are told, and what was known by its address connects again.
func TestPortFlapAndMovedGID(t *testing.T) {
	n := newNode(t)
	if n.gid.NetDev != "weft0" { // nobody else's interface is taken down
		require.NotEqual(t, "rxe0", n.ctx.Name(), "the soft-RoCE machine has weft0")
		return
	}
	address := n.gid.GID.String() + "/24"
	// It ends at the first free place, wherever the test has left it: places that grow with every repetition run out of
	// others to fill them, and without its address every test after this one fails too.
	t.Cleanup(func() {
		_ = exec.Command("ip", "address", "delete", address, "dev", "weft0").Run()
		n.eventually(t, "its place is empty", func() bool { _, err := n.ctx.FindGID(n.gid); return err != nil })
		ip(t, "address", "add", address, "dev", "weft0")
		n.eventually(t, "the address is back", func() bool { _, err := n.ctx.FindGID(n.gid); return err == nil })
	})
	ip(t, "link", "set", "weft0", "down")
	require.Equal(t, uint8(1), awaitEvent(t, n.ctx, verbs.EventPortErr).Port)
	ip(t, "link", "set", "weft0", "up")
	require.Equal(t, uint8(1), awaitEvent(t, n.ctx, verbs.EventPortActive).Port)
	port, err := n.ctx.QueryPort(1)
	require.NoError(t, err)
	require.Equal(t, verbs.PortActive, port.State)

	n.eventually(t, "the address is there", func() bool { _, err := n.ctx.FindGID(n.gid); return err == nil })
	ip(t, "address", "delete", address, "dev", "weft0")
	require.Equal(t, uint8(1), awaitEvent(t, n.ctx, verbs.EventGIDChange).Port)
	n.eventually(t, "its place is empty", func() bool { _, err := n.ctx.QueryGID(1, n.gid.Index); return err != nil })
	// Others take the first places, until one has its own.
	taken := func() bool { _, err := n.ctx.QueryGID(1, n.gid.Index); return err == nil }
	for i := range 8 {
		if taken() {
			break
		}
		other := verbs.GID(netip.AddrFrom4([4]byte{10, 9, byte(100 + i), 1}).As16())
		ip(t, "address", "add", other.String()+"/24", "dev", "weft0")
		t.Cleanup(func() { ip(t, "address", "delete", other.String()+"/24", "dev", "weft0") })
		entry := verbs.GIDEntry{GID: other, Port: 1, Type: n.gid.Type}
		n.eventually(t, "the other address is there", func() bool { _, err := n.ctx.FindGID(entry); return err == nil })
	}
	require.True(t, taken())
	ip(t, "address", "add", address, "dev", "weft0")
	n.eventually(t, "the address is back", func() bool { _, err := n.ctx.FindGID(n.gid); return err == nil })
	moved, err := n.ctx.FindGID(n.gid)
	require.NoError(t, err)
	require.NotEqual(t, n.gid.Index, moved.Index)
	a, _ := n.connected(t) // with the entry as it was
	_, mr := n.region(t, 64, remoteAccess)
	n.postTo(t, a, mr)
}

// An event that was asked for solicited completions comes for those alone.
func TestSolicitedEvents(t *testing.T) {
	n := newNode(t)
	a, b := n.connected(t)
	_, err := b.PostRecv([]verbs.RecvWR{{ID: 1}, {ID: 2}}, nil)
	require.NoError(t, err)
	require.NoError(t, n.cq.ArmSolicited())
	_, err = a.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}, nil)
	require.NoError(t, err)
	poll(t, n.cq, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, n.cq.Wait(ctx), context.DeadlineExceeded)
	_, err = a.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSolicited}}, nil)
	require.NoError(t, err)
	require.NoError(t, n.cq.Wait(rdmatest.Context(t, 20*time.Second)))
	require.Equal(t, uint64(2), poll(t, n.cq, 1)[0].ID)
}

func TestSharedChannel(t *testing.T) {
	n := newNode(t)
	channel, err := n.ctx.CreateCompChannel()
	require.NoError(t, err)
	closeAtEnd(t, channel)
	var cqs [2]*verbs.CQ
	var senders [2]*verbs.QP
	for i := range cqs {
		cqs[i], err = n.ctx.CreateCQ(verbs.CQConfig{Depth: 64, Channel: channel})
		require.NoError(t, err)
		closeAtEnd(t, cqs[i])
		onThis := *n
		onThis.cq = cqs[i]
		var receiver *verbs.QP
		senders[i], receiver = onThis.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 4, MaxRecvWR: 4})
		_, err = receiver.PostRecv([]verbs.RecvWR{{ID: uint64(i)}}, nil)
		require.NoError(t, err)
		require.NoError(t, cqs[i].Arm())
	}
	for _, i := range []int{1, 0} {
		_, err = senders[i].PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}, nil)
		require.NoError(t, err)
		ready, err := channel.Wait(rdmatest.Context(t, 20*time.Second), nil)
		require.NoError(t, err)
		require.Equal(t, []*verbs.CQ{cqs[i]}, ready)
		require.Equal(t, uint64(i), poll(t, cqs[i], 1)[0].ID)
	}
}

func TestResizeKeepsWhatIsThere(t *testing.T) {
	n := newNode(t)
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 16})
	require.NoError(t, err)
	closeAtEnd(t, cq)
	onThis := *n
	onThis.cq = cq
	a, b := onThis.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 4, MaxRecvWR: 4})
	_, err = b.PostRecv([]verbs.RecvWR{{ID: 5}}, nil)
	require.NoError(t, err)
	_, err = a.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}, nil)
	require.NoError(t, err)
	// The send's arrival is seen without taking its completion: by that of a second queue pair's behind it.
	n.post(t, n.queuePairToItself(t), verbs.SendWR{Opcode: verbs.OpWrite})
	require.NoError(t, cq.Resize(256))
	require.GreaterOrEqual(t, cq.Depth(), 256)
	require.Equal(t, uint64(5), poll(t, cq, 1)[0].ID)
}
