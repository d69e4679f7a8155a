package transferengine_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

func TestOpenRefusesWhatCannotBe(t *testing.T) {
	one := []rail.Opener{newNetwork(t, simrail.Config{}).Rail("192.0.2.1")}
	for name, c := range map[string]struct {
		config transferengine.Config
		want   error
	}{
		"no rail":         {transferengine.Config{}, syscall.EINVAL},
		"two rails":       {transferengine.Config{Rails: append(one, one...)}, errors.ErrUnsupported},
		"a nil rail":      {transferengine.Config{Rails: []rail.Opener{nil}}, syscall.EINVAL},
		"other progress":  {transferengine.Config{Rails: one, Progress: 3}, syscall.EINVAL},
		"queue below":     {transferengine.Config{Rails: one, QueueDepth: -1}, syscall.EINVAL},
		"transfers above": {transferengine.Config{Rails: one, MaxTransfers: 1<<20 + 1}, syscall.EINVAL},
		"immediates":      {transferengine.Config{Rails: one, MaxImmediates: -1}, syscall.EINVAL},
		"connect timeout": {transferengine.Config{Rails: one, ConnectTimeout: -1}, syscall.EINVAL},
		"close timeout":   {transferengine.Config{Rails: one, CloseTimeout: -1}, syscall.EINVAL},
	} {
		_, err := transferengine.Open(c.config)
		require.ErrorIs(t, err, c.want, name)
	}
	one[0] = newNetwork(t, simrail.Config{NoImmSource: true}).Rail("192.0.2.1")
	_, err := transferengine.Open(transferengine.Config{Rails: one})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	one[0] = &sink{caps: rail.Caps{ImmSource: true}}
	_, err = transferengine.Open(transferengine.Config{Rails: one})
	require.ErrorIs(t, err, syscall.EINVAL, "writes of no bytes")
}

func TestRegisterRefusesWhatCannotBe(t *testing.T) {
	e := newWorld(t, simrail.Config{}).open(transferengine.Config{})
	_, err := e.Register(nil, transferengine.RemoteWrite)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = e.Register(make([]byte, 1), 1<<7)
	require.ErrorIs(t, err, syscall.EINVAL)
	memory := make([]byte, 10)
	first, second := register(t, e, memory), register(t, e, memory)
	require.NotEqual(t, first.Descriptor(), second.Descriptor(), "registrations of one memory are told apart")
}

func TestConnectFindsThePeer(t *testing.T) {
	w := newWorld(t, simrail.Config{Delay: time.Millisecond})
	a, b := w.open(transferengine.Config{}), w.open(transferengine.Config{})
	endedAB, err := a.StartConnect(b.Address())
	require.NoError(t, err)
	endedBA, err := b.StartConnect(a.Address())
	require.NoError(t, err)
	w.settle()
	toB, done, err := endedAB()
	require.True(t, done)
	require.NoError(t, err)
	toA, _, err := endedBA()
	require.NoError(t, err)
	require.Equal(t, b.Address().Incarnation(), toB.Incarnation())
	require.Equal(t, "192.0.2.2", toB.String())
	require.NoError(t, toB.Err())
	again, _ := w.connect(a, b)
	require.Same(t, toB, again)
	require.Equal(t, []*transferengine.Peer{toA}, b.Peers())
}

func TestConnectToNobody(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	a, b := w.open(transferengine.Config{ConnectTimeout: time.Minute}), w.open(transferengine.Config{})
	w.network.Kill("192.0.2.2")
	ended, err := a.StartConnect(b.Address())
	require.NoError(t, err)
	start := w.Now()
	w.settle()
	_, done, err := ended()
	require.True(t, done)
	require.ErrorIs(t, err, rail.ErrUnreachable)
	require.Equal(t, time.Minute, w.Now().Sub(start))
	_, err = a.StartConnect(transferengine.Address{})
	require.ErrorContains(t, err, "the address is empty")
}

func TestARestartedPeerIsANewOne(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	old := p.b.Address()
	p.network.Kill("192.0.2.2")
	p.settle()
	require.ErrorIs(t, p.toB.Err(), rail.ErrPeerGone)
	reborn := p.openAt("192.0.2.2", transferengine.Config{})

	ended, err := p.a.StartConnect(old)
	require.NoError(t, err)
	p.settle()
	_, _, err = ended()
	require.ErrorIs(t, err, rail.ErrPeerGone)
	require.ErrorContains(t, err, "get its new address")
	again, _ := p.connect(p.a, reborn)
	require.NotSame(t, p.toB, again)

	w := p.all(1)
	w.Peer = again
	var tr transferengine.Transfer
	require.ErrorIs(t, p.a.Write(&tr, w), syscall.EINVAL, "a descriptor of the life before")
}

func TestCloseWithOpenRegionsNamesThem(t *testing.T) {
	p := newPair(t, 100, transferengine.Config{})
	err := p.a.Close()
	require.ErrorIs(t, err, syscall.EBUSY)
	require.ErrorContains(t, err, p.source.String())
	var tr transferengine.Transfer
	require.NoError(t, p.a.Write(&tr, p.all(1)), "nothing changed")
	require.NoError(t, p.finish(&tr))
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	w := newWorld(t, simrail.Config{Depth: 1})
	p := newPairIn(w, 8, transferengine.Config{})
	w.network.SetDelay(time.Hour)
	transfers := make([]transferengine.Transfer, 4)
	for i := range transfers {
		request := transferengine.Write{Peer: p.toB, Dest: &p.descriptor, HasImm: true}
		require.NoError(t, p.a.Write(&transfers[i], request))
	}
	p.a.Turn(p.Now())
	calls, err := p.a.StartConnect(w.open(transferengine.Config{}).Address())
	require.NoError(t, err)
	require.NoError(t, p.source.Close())
	require.NoError(t, p.a.Close())
	require.NoError(t, p.a.Close(), "again")
	for i := range transfers {
		var failed *transferengine.TransferError
		require.ErrorAs(t, transfers[i].Wait(soon(t)), &failed)
		require.Equal(t, i == 0, failed.Outcome == transferengine.MaybeDelivered, "transfer %d: %v", i, failed)
	}
	_, done, err := calls()
	require.True(t, done)
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, p.toB.Err(), net.ErrClosed)
	p.settle1(p.b)
	require.ErrorIs(t, p.toA.Err(), rail.ErrPeerClosed)

	require.ErrorIs(t, p.a.Write(&transfers[0], p.all(1)), net.ErrClosed)
	_, err = p.a.Register(make([]byte, 1), 0)
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = p.a.Connect(soon(t), p.b.Address())
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, p.a.Counter(1).Wait(soon(t), 1), net.ErrClosed)
	p.a.Poll()
}

// settle1 turns one engine until it has nothing to do.
func (p *pair) settle1(e *transferengine.Engine) {
	for did := 1; did > 0; {
		did, _ = e.TurnUndriven(p.Now())
	}
}

// reluctantRail closes registrations when it is told to, and as it is told.
type reluctantRail struct {
	rail.Rail
	closing chan struct{}
	results chan error
	halfway bool // something is freed also where it fails
}

func (r *reluctantRail) Open(i rail.Incarnation) (_ rail.Rail, err error) {
	r.Rail, err = simrail.NewNetwork(simrail.Config{}).Rail("192.0.2.1").Open(i)
	return r, err
}

func (r *reluctantRail) Register(memory []byte, access rail.Access) (rail.Registration, error) {
	registration, err := r.Rail.Register(memory, access)
	return reluctantRegistration{registration, r}, err
}

type reluctantRegistration struct {
	rail.Registration
	rail *reluctantRail
}

func (r reluctantRegistration) Close() error {
	r.rail.closing <- struct{}{}
	err := <-r.rail.results
	if err == nil || r.rail.halfway {
		err = errors.Join(err, r.Registration.Close())
	}
	return err
}

// TestARegionIsClosedByOneOfTwo who close it at once, after the other has failed: it is closed then, and not in use again.
func TestARegionIsClosedByOneOfTwo(t *testing.T) {
	r := &reluctantRail{closing: make(chan struct{}, 2), results: make(chan error)}
	e := openDriven(t, nil, "", transferengine.Config{Rails: []rail.Opener{r}})
	region, err := e.Register(make([]byte, 8), transferengine.LocalOnly)
	require.NoError(t, err)
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- region.Close() }()
	}
	<-r.closing
	broken := errors.New("the device is busy")
	r.results <- life.Refused(broken)
	require.ErrorIs(t, <-closed, broken)
	<-r.closing
	r.results <- nil
	require.NoError(t, <-closed)
	require.NoError(t, region.Close())
	require.True(t, region.Closed())

	region, err = e.Register(make([]byte, 8), transferengine.LocalOnly)
	require.NoError(t, err)
	r.halfway = true
	go func() { closed <- region.Close() }()
	<-r.closing
	r.results <- broken
	require.ErrorIs(t, <-closed, broken, "what was freed is not known")
	require.True(t, region.Closed())
	require.NoError(t, region.Close())
}
