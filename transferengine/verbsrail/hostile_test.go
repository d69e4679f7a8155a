package verbsrail_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
	"github.com/weftrdma/weft/verbs"
)

func TestPeerThatBreaksTheProtocolIsGivenUp(t *testing.T) {
	for _, how := range []string{
		"a message where only writes may arrive", "control message of 0 bytes", "control message 0x80", "the peer grants 1099511627776 immediates after 256, of which 0 were used",
	} {
		t.Run(how, func(t *testing.T) {
			a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
			id, atB := connect(t, a, b)
			require.NoError(t, a.rail.Violate(id, how))
			until(t, "down at both", func() bool { return a.isDown(id)() && b.isDown(atB)() }, a, b)
			require.ErrorContains(t, b.downs[atB], how)
			require.ErrorIs(t, a.downs[id], rail.ErrPeerGone)
		})
	}
}

func TestMessageQueuePairTakesNoWrites(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, atB := connect(t, a, b)
	require.NoError(t, a.rail.Violate(id, "a write where only messages may arrive"))
	until(t, "down at both", func() bool { return a.isDown(id)() && b.isDown(atB)() }, a, b)
	require.ErrorIs(t, a.downs[id], rail.ErrAccess)
	require.ErrorIs(t, b.downs[atB], rail.ErrPeerGone)
	require.Empty(t, b.immediates)
}

func TestGarbageOnTheHandshakeIsCounted(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	send := datagramSender(t, a)
	for _, garbage := range [][]byte{
		{}, []byte("nonsense"), a.rail.Address(), make([]byte, 1024), append([]byte("WvHI\x01\x01\x00\x00"), make([]byte, 300)...),
	} {
		before := a.rail.Ignored()
		send(garbage)
		until(t, "it is counted", func() bool { return a.rail.Ignored() > before }, a)
	}
	// More than there are receives for.
	for range 300 {
		send([]byte("nonsense"))
	}
	connect(t, a, b)
	require.Less(t, uint64(5), a.rail.Ignored())
}

// datagramSender returns what sends a datagram to a rail from outside of any, and waits until it is gone.
func datagramSender(t *testing.T, to *engine) func([]byte) {
	ctx, err := verbs.Open(rdmatest.Device(t))
	require.NoError(t, err)
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	cq, err := ctx.CreateCQ(verbs.CQConfig{Depth: 16})
	require.NoError(t, err)
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: cq, RecvCQ: cq, MaxSendWR: 4})
	require.NoError(t, err)
	gid, qpn, qkey := to.rail.Destination()
	require.NoError(t, qp.Activate(gid.Port, qkey))
	ah, err := pd.CreateAH(verbs.AHConfig{Port: gid.Port, GIDIndex: gid.Index, RemoteGID: gid.GID})
	require.NoError(t, err)
	buffer, err := mem.Map(4096)
	require.NoError(t, err)
	mr, err := pd.RegMR(buffer.Bytes(), verbs.AccessLocalWrite)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{qp, ah, mr, buffer, cq, pd, ctx} {
			require.NoError(t, c.Close())
		}
	})
	return func(datagram []byte) {
		n := copy(buffer.Bytes(), datagram)
		_, err := qp.PostSend([]verbs.SendWR{{
			Opcode: verbs.OpSend, Flags: verbs.SendSignaled, NumSGE: 1, AH: ah.Ref(), RemoteQPN: qpn, RemoteQKey: qkey,
		}}, []verbs.SGE{{Addr: mr.Addr(), Length: uint32(n), LKey: mr.LKey()}})
		require.NoError(t, err)
		var wcs [1]verbs.WC
		for end := time.Now().Add(rdmatest.Deadline(patience)); ; {
			n, err := cq.Poll(wcs[:])
			require.NoError(t, err)
			require.True(t, time.Now().Before(end))
			if n == 1 {
				require.NoError(t, wcs[0].Err())
				return
			}
		}
	}
}

func TestRoomAndSlotsComeBack(t *testing.T) {
	small := verbsrail.Config{CompletionDepth: 384 + 560}
	a, b := newEngine(t, small), newEngine(t, verbsrail.Config{})
	for i := range 40 {
		id, _ := connect(t, a, b)
		a.post(id, withImm(a.write(uint64(i), 0, b.remote(), 0, 8), 1))
		until(t, "a write", func() bool { return a.completed == i+1 }, a, b)
		atB := b.ups[len(b.ups)-1]
		if i%2 == 0 {
			b.rail.Disconnect(time.Now(), atB)
		} else {
			a.rail.Disconnect(time.Now(), id)
		}
		until(t, "down", func() bool { return a.isDown(id)() && b.isDown(atB)() }, a, b)
		a.turn() // sees the completion queue empty
	}
	require.Zero(t, a.rail.Connections())
}
