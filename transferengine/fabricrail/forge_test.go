package fabricrail_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Kinds of control messages, and values of a farewell.
const (
	kindStatus, kindBye, kindMessage = 1, 2, 0x81

	byeClosed, byeFailed, byeCut, byeAnswer = 1, 2, 3, 1 << 8
)

// TestForgedControlMessages: a stranger that knows everything of a connection but its secret, the tag included, cannot end it, grant
// anything or say anything on it, and gets no answer.
func TestForgedControlMessages(t *testing.T) {
	eachTransport(t, forgedControlMessages)
}

func forgedControlMessages(t *testing.T, cfg fabricrail.Config, connected bool) {
	cfg.Heartbeat, cfg.PeerTimeout = time.Hour, 3*time.Hour // nothing is said but because of what is forged
	a, b, stranger := open(t, cfg, 1), open(t, cfg, 2), open(t, cfg, 3)
	toB := a.connect(b)
	const toA = rail.PeerID(1)
	for range 100 {
		a.turn()
		b.turn()
	}
	if connected {
		stranger.connect(b) // it is another peer
	}
	pass(10*time.Millisecond, b, stranger)
	b.events = nil
	ctx := rdmatest.Context(t, patience)
	send := func(message []byte, arrived func() bool) {
		for sent := false; !sent || !arrived(); {
			if !sent {
				var err error
				sent, err = stranger.fabric().SendTo(b.rail.Address(), message)
				require.NoError(t, err)
			}
			stranger.turn()
			b.turn()
			require.NoError(t, ctx.Err())
		}
	}
	free := b.fabric().FreeSends()
	for kind, values := range map[byte][]uint64{kindStatus: {0}, kindMessage: {0},
		kindBye: {byeClosed, byeFailed, byeCut, byeClosed | byeAnswer}, 0x80: {0}, 77: {0}} {
		for _, value := range values {
			ignored := b.fabric().Ignored()
			send(b.fabric().Control(toA, kind, value, false), func() bool { return b.fabric().Ignored() > ignored })
			require.Empty(t, b.events, "kind %#x, value %d", kind, value)
			require.Equal(t, free, b.fabric().FreeSends(), "kind %#x, value %d is answered", kind, value)
		}
	}
	_, write := b.target(8)
	write.HasImm = true
	n, err := a.rail.Post(toB, []rail.Op{write})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	await(rail.Immediate, b, a)
	require.NoError(t, await(rail.Completed, a, b).Err)

	if connected { // with the secret, too, it is not heard: it does not come on the connection
		ignored := b.fabric().Ignored()
		send(b.fabric().Control(toA, kindBye, byeClosed, true), func() bool { return b.fabric().Ignored() > ignored })
		require.Empty(t, b.events)
		return
	}
	// The same with the secret: so what was refused above was refused for the want of it.
	send(b.fabric().Control(toA, kindBye, byeClosed, true), func() bool { return b.fabric().FreeSends() < free })
	require.ErrorIs(t, await(rail.PeerDown, b, a).Err, rail.ErrPeerClosed)
	await(rail.PeerDown, a, b)
}

// TestGuessedSecrets: a million guesses of a farewell's secret change nothing.
func TestGuessedSecrets(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	toB := a.connect(b)
	const toA, guesses = rail.PeerID(1), 1 << 20
	random := rand.New(rand.NewPCG(rdmatest.Seed(t), 0))
	forged := b.fabric().Control(toA, kindBye, byeCut, false)
	ignored, free := b.fabric().Ignored(), b.fabric().FreeSends()
	for range guesses {
		binary.NativeEndian.PutUint64(forged[fabricrail.SecretOffset:], random.Uint64())
		binary.NativeEndian.PutUint64(forged[fabricrail.SecretOffset+8:], random.Uint64())
		b.fabric().Arrived(toA, forged)
	}
	require.Equal(t, ignored+guesses, b.fabric().Ignored())
	require.Equal(t, free, b.fabric().FreeSends())
	_, write := b.target(8)
	write.HasImm = true
	n, err := a.rail.Post(toB, []rail.Op{write})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	await(rail.Immediate, b, a)
}

// TestSecretsAreRandom: no two connections have the same, and no end has the other's. Nor can the tag of a connection be told from
// that of another.
func TestSecretsAreRandom(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	seen, tags := map[string]bool{}, map[uint32]bool{}
	for range 4 {
		id := a.connect(b)
		for _, e := range []*end{a, b} {
			message := e.fabric().Control(id, kindStatus, 0, true)
			secret := string(message[fabricrail.SecretOffset:])
			require.False(t, seen[secret])
			require.NotEqual(t, make([]byte, 16), message[fabricrail.SecretOffset:])
			seen[secret] = true
			tag := binary.BigEndian.Uint32(message[4:])
			require.False(t, tags[tag] || tags[tag-1<<12], "the tag is as that of the last connection, or the next one")
			tags[tag] = true
		}
		a.rail.Disconnect(time.Now(), id)
		await(rail.PeerDown, a, b)
		await(rail.PeerDown, b, a)
	}
}

// TestImmediateNeedsAKey: a write without bytes makes no immediate unless it names memory that may be written, also with the tag of a
// connection.
func TestImmediateNeedsAKey(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	cfg := fabricrail.Datagrams(local())
	a, b := open(t, cfg, 1), open(t, cfg, 2)
	a.connect(b)
	_, write := b.target(64)
	tag := binary.BigEndian.Uint32(b.fabric().Control(1, kindStatus, 0, true)[4:])
	for _, key := range []uint64{write.RemoteKey ^ 1, write.RemoteKey} {
		o := openOutsider(t, b, cfg)
		_ = o.do(o.ep.Write, fabric.Op{Flags: fabric.FlagRemoteCQData, Data: uint64(tag)<<32 | 7, RemoteKey: key}, 0, b)
		if key == write.RemoteKey {
			require.EqualValues(t, 7, await(rail.Immediate, b).Imm, "so that the one before could have come")
			return
		}
		for range 1000 {
			b.turn()
		}
		require.Empty(t, b.events)
	}
}

// TestImmediatesCannotBeForged: with the tag of a connection, and a key, another peer cannot make an immediate in its name.
func TestImmediatesCannotBeForged(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	a.connect(b)
	_, write := b.target(64)
	tag := binary.BigEndian.Uint32(b.fabric().Control(1, kindStatus, 0, true)[4:])
	o := openOutsider(t, b, local())
	ignored := b.fabric().Ignored()
	forged := fabric.Op{Flags: fabric.FlagRemoteCQData | fabric.FlagDeliveryComplete, Data: uint64(tag)<<32 | 7, RemoteKey: write.RemoteKey}
	require.NoError(t, o.do(o.ep.Write, forged, 0, b))
	pass(20*time.Millisecond, b)
	require.Equal(t, ignored+1, b.fabric().Ignored())
	require.Empty(t, b.events)
}

// TestPeerThatDoesNotListen asks and asks, and reads no answer: the rail goes on to talk to others.
func TestPeerThatDoesNotListen(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	cfg := fabricrail.Datagrams(local())
	a, b := open(t, cfg, 1), open(t, cfg, 2)
	o := openOutsider(t, b, cfg)
	name, err := o.ep.Name()
	require.NoError(t, err)
	hello := b.fabric().HelloOf(name)
	copy(o.own, hello)
	ctx := rdmatest.Context(t, patience)
	all := b.fabric().FreeSends()
	send := func() error {
		_, err := o.ep.Send([]fabric.Op{{ID: 1, Peer: o.peer, NumSeg: 1}}, []fabric.Seg{o.mr.Seg(0, uint64(len(hello)))})
		return err
	}
	for send() != nil || !b.fabric().Calling() { // the connection that the answers go by
		b.turn()
		require.NoError(t, ctx.Err())
	}
	for more := 1000; more > 0; { // after the sockets' own buffers are full
		b.fabric().HelloArrived(hello)
		b.turn()
		if b.fabric().FreeSends() < all {
			more--
		}
		require.Greater(t, b.fabric().FreeSends(), all/2)
		require.NoError(t, ctx.Err())
	}
	a.connect(b)
}
