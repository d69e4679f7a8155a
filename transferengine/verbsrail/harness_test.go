package verbsrail_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)

// patience bounds every wait: the machine is emulated, and shared.
const patience = 60 * time.Second

// engine is the part of an engine that a rail needs: it takes turns and notes the events.
type engine struct {
	t          testing.TB
	rail       *verbsrail.Rail
	events     [32]rail.Event
	ups        []rail.PeerID
	infos      map[rail.PeerID]rail.PeerInfo // of those that came up
	downs      map[rail.PeerID]error
	done       map[uint64]error // by token
	completed  int
	order      []uint64 // tokens, as they completed
	immediates []rail.Event
	buffer     *mem.Buffer
	memory     []byte
	keys       rail.Registration
}

const memorySize = 1 << 20

func newEngine(t testing.TB, cfg verbsrail.Config) *engine {
	t.Helper()
	rdmatest.Require(t, rdmatest.Verbs)
	cfg.Device = rdmatest.Device(t)
	e, err := openEngine(cfg, byte(len(t.Name())))
	require.NoError(t, err)
	e.t = t
	t.Cleanup(func() { require.NoError(t, e.close()) })
	return e
}

func openEngine(cfg verbsrail.Config, incarnation byte) (*engine, error) {
	r, err := cfg.Open(rail.Incarnation{0: incarnation})
	if err != nil {
		return nil, err
	}
	e := &engine{rail: r.(*verbsrail.Rail), infos: map[rail.PeerID]rail.PeerInfo{}, downs: map[rail.PeerID]error{}, done: map[uint64]error{}}
	if e.buffer, err = mem.Map(memorySize); err != nil {
		return nil, err
	}
	e.memory = e.buffer.Bytes()
	e.keys, err = r.Register(e.memory, rail.RemoteWrite)
	return e, err
}

func (e *engine) close() error {
	if err := e.keys.Close(); err != nil {
		return err
	}
	if err := e.rail.Close(); err != nil {
		return err
	}
	return e.buffer.Close()
}

func (e *engine) turn() (n int) {
	n, _ = e.rail.Turn(time.Now(), e.events[:])
	for _, ev := range e.events[:n] {
		if err := e.note(ev); err != nil {
			e.t.Fatal(err)
		}
	}
	return n
}

// note checks an event against the contract and keeps it.
func (e *engine) note(ev rail.Event) error {
	if _, down := e.downs[ev.Peer]; down {
		return fmt.Errorf("%+v after the peer was down", ev)
	}
	switch ev.Kind {
	case rail.PeerUp:
		e.ups = append(e.ups, ev.Peer)
		e.infos[ev.Peer] = *ev.Info
	case rail.PeerDown:
		e.downs[ev.Peer] = ev.Err
	case rail.Immediate:
		e.immediates = append(e.immediates, ev)
	case rail.Completed:
		if _, twice := e.done[ev.Token]; twice {
			return fmt.Errorf("token %d completed twice", ev.Token)
		}
		e.done[ev.Token] = ev.Err
		e.order = append(e.order, ev.Token)
		e.completed++
	}
	return nil
}

// until lets the engines take turns until the condition holds.
func until(t testing.TB, what string, condition func() bool, engines ...*engine) {
	t.Helper()
	for end := time.Now().Add(rdmatest.Deadline(patience)); !condition(); {
		for _, e := range engines {
			e.turn()
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// connect connects a to b and returns the peers' names at both.
func connect(t testing.TB, a, b *engine) (atA, atB rail.PeerID) {
	t.Helper()
	atA, err := a.rail.Connect(time.Now(), b.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	before := len(b.ups)
	until(t, "both ends up", func() bool { return a.isUp(atA) && len(b.ups) > before }, a, b)
	return atA, b.ups[len(b.ups)-1]
}

func (e *engine) isUp(id rail.PeerID) bool {
	for _, up := range e.ups {
		if up == id {
			return true
		}
	}
	return false
}

func (e *engine) isDown(id rail.PeerID) func() bool {
	return func() bool {
		_, down := e.downs[id]
		return down
	}
}

// write makes a write of our memory at from to the target's memory at to.
func (e *engine) write(token uint64, from int, target remote, to, length int) rail.Op {
	return rail.Op{Token: token, LocalAddr: mem.Addr(e.memory) + uint64(from), LocalKey: e.keys.LocalKey(),
		RemoteAddr: target.addr + uint64(to), RemoteKey: target.key, Length: uint64(length)}
}

// remote is memory of a peer.
type remote struct{ addr, key uint64 }

func (e *engine) remote() remote { return remote{mem.Addr(e.memory), e.keys.RemoteKey()} }

func withImm(w rail.Op, imm uint32) rail.Op {
	w.Imm, w.HasImm = imm, true
	return w
}

func (e *engine) post(id rail.PeerID, writes ...rail.Op) {
	e.t.Helper()
	n, err := e.rail.Post(id, writes)
	require.NoError(e.t, err)
	require.Equal(e.t, len(writes), n)
}

// playPeer is a rail in a process of its own. It prints its address and memory, and takes turns until it is killed. With
// an address as argument it connects there.
func playPeer(args []string) int {
	cfg := verbsrail.Config{Device: args[0]}
	e, err := openEngine(cfg, byte(os.Getpid()))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Printf("%x %d %d %d\n", e.rail.Address(), e.remote().addr, e.remote().key, os.Getpid())
	if len(args) > 1 {
		to, _ := hex.DecodeString(args[1])
		if _, err := e.rail.Connect(time.Now(), to, time.Now().Add(rdmatest.Deadline(patience))); err != nil {
			fmt.Println("error", err)
			return 1
		}
	}
	for {
		n, _ := e.rail.Turn(time.Now(), e.events[:])
		for _, ev := range e.events[:n] {
			if ev.Kind == rail.PeerUp {
				fmt.Println("up")
			}
		}
	}
}

type childPeer struct {
	*rdmatest.Child
	address []byte
	memory  remote
	pid     int
}

func startPeer(t testing.TB, args ...string) *childPeer {
	t.Helper()
	c := &childPeer{Child: rdmatest.StartChild(t, "peer", append([]string{rdmatest.Device(t)}, args...)...)}
	line, err := c.ReadLine(patience)
	require.NoError(t, err)
	_, err = fmt.Sscanf(line, "%x %d %d %d", &c.address, &c.memory.addr, &c.memory.key, &c.pid)
	require.NoError(t, err, line)
	return c
}

func TestMain(m *testing.M) {
	rdmatest.Main(m, rdmatest.Children{
		"peer": playPeer, "conformance peer": conformancePeer, "bench peer": playBenchPeer,
	})
}
