package fabricrail_test

import (
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// TestCallsThatCross: two rails that call each other at about the same time have one connection, whoever is first with what.
func TestCallsThatCross(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	random := rand.New(rand.NewPCG(rdmatest.Seed(t), 0))
	a, b := open(t, local(), 1), open(t, local(), 2)
	ctx := rdmatest.Context(t, patience)
	before := 0
	for round := range 50 {
		ends, peers := []*end{a, b}, []rail.PeerID{0, 0}
		call := func(i int) {
			if peers[i] == 0 {
				id, err := ends[i].rail.Connect(time.Now(), ends[1-i].rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
				require.NoError(t, err)
				peers[i] = id
			}
		}
		call(random.IntN(2))
		for range random.IntN(6) {
			ends[random.IntN(2)].turn()
		}
		call(0)
		call(1)
		for range random.IntN(20) {
			ends[random.IntN(2)].turn()
		}
		for i, e := range ends {
			require.Equal(t, peers[i], await(rail.PeerUp, e, ends[1-i]).Peer)
		}
		pass(2*time.Millisecond, a, b)
		require.Empty(t, a.events)
		require.Empty(t, b.events)
		require.Equal(t, []int{1, 1}, []int{a.fabric().Links(), b.fabric().Links()}, "round %d", round)
		if round == 0 {
			before = descriptors(t)
		}
		for descriptors(t) > before { // until the end of a call that was not taken is seen
			pass(time.Millisecond, a, b)
			require.NoError(t, ctx.Err(), "round %d: a descriptor is left", round)
		}
		i := random.IntN(2)
		ends[i].rail.Disconnect(time.Now(), peers[i])
		for j, e := range ends {
			await(rail.PeerDown, e, ends[1-j])
			e.events = nil
		}
		require.NoError(t, ctx.Err())
	}
}

// TestAdvertisedAddressIsTheOneThatIsCalled: with something between that passes on what comes there, in both directions.
func TestAdvertisedAddressIsTheOneThatIsCalled(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer front.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	behind := free.Addr().String()
	require.NoError(t, free.Close())
	go func() {
		for {
			in, err := front.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", behind)
			if err != nil {
				_ = in.Close()
				continue
			}
			pipe := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			}
			go pipe(in, out)
			go pipe(out, in)
		}
	}()
	cfg := local()
	_, cfg.Service, err = net.SplitHostPort(behind)
	require.NoError(t, err)
	cfg.Advertise = netip.MustParseAddrPort(front.Addr().String())
	hidden, other := open(t, cfg, 1), open(t, local(), 2)
	for _, caller := range []*end{other, hidden} {
		called := map[*end]*end{other: hidden, hidden: other}[caller]
		id := caller.connect(called)
		_, write := called.target(8)
		write.HasImm = true
		n, err := caller.rail.Post(id, []rail.Op{write})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		await(rail.Immediate, called, caller)
		await(rail.Completed, caller, called)
		caller.rail.Disconnect(time.Now(), id)
		await(rail.PeerDown, caller, called)
		await(rail.PeerDown, called, caller)
	}
}

// TestExpectedPeerIsNotCalled, also where a connection that it had made breaks before it is up.
func TestExpectedPeerIsNotCalled(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer nobody.Close()
	cfg := local()
	cfg.Advertise = netip.MustParseAddrPort(nobody.Addr().String()) // so that a call to it would be seen
	a, b := open(t, local(), 1), open(t, cfg, 2)
	within := rdmatest.Deadline(2 * time.Second)
	id, err := a.rail.Expect(time.Now(), b.rail.Address(), time.Now().Add(within))
	require.NoError(t, err)
	_, err = b.rail.Connect(time.Now(), a.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	for a.fabric().Links() == 0 {
		a.turn()
		b.turn()
	}
	b.fabric().Cut()
	lost := await(rail.PeerLost, a)
	require.Equal(t, id, lost.Peer)
	require.ErrorIs(t, lost.Err, rail.ErrUnreachable)
	require.NoError(t, nobody.(*net.TCPListener).SetDeadline(time.Now().Add(10*time.Millisecond)))
	_, err = nobody.Accept()
	require.Error(t, err, "it was called")
}
