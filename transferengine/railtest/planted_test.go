package railtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

func TestMain(m *testing.M) { rdmatest.Main(m, nil) }

// plant is one bug in a rail that is otherwise sound: what its hooks leave nil is.
type plant struct {
	clause  string
	bug     string
	says    string // what the clause says of it, so that it is not found by accident
	network simrail.Config
	caps    func(*rail.Caps)
	name    string
	connect func(r *buggy, id rail.PeerID, address []byte) (rail.PeerID, error)
	expect  func(r *buggy, now time.Time, address []byte, deadline time.Time) (rail.PeerID, error)
	post    func(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error)
	send    func(r *buggy, peer rail.PeerID, message []byte) (bool, error)
	leave   func(r *buggy, now time.Time, peer rail.PeerID)
	event   func(r *buggy, e rail.Event) []rail.Event // what the engine is told instead
	turn    func(r *buggy, now time.Time, events []rail.Event) (int, time.Time)
	arm     func(r *buggy) bool
	spin    func(r *buggy) bool
	wait    func(r *buggy, ctx context.Context) error
	close   func(r *buggy) error

	register func(r *buggy, memory []byte, access rail.Access) (rail.Registration, error)
	ended    chan struct{} // closed after the clause
}

// buggy is a rail with a bug.
type buggy struct {
	rail.Rail
	plant *plant
	extra []rail.Event // that the engine is yet to be told
	count int
	mu    sync.Mutex // of what any goroutine does
	loot  []any

	flying []rail.Op
	last   time.Time
}

func (p *plant) opener(o rail.Opener) rail.Opener { return buggyOpener{o, p} }

type buggyOpener struct {
	opener rail.Opener
	plant  *plant
}

func (o buggyOpener) Open(i rail.Incarnation) (rail.Rail, error) {
	r, err := o.opener.Open(i)
	b := &buggy{Rail: r, plant: o.plant}
	if o.plant.spin != nil {
		return spinning{b}, err
	}
	return b, err
}

// spinning is a buggy rail that can spin.
type spinning struct{ *buggy }

func (s spinning) Spin(time.Duration, *atomic.Uint64, uint64) bool { return s.plant.spin(s.buggy) }

func (b *buggy) Name() string {
	if b.plant.name != "" {
		return b.plant.name
	}
	return b.Rail.Name()
}

func (b *buggy) Caps() rail.Caps {
	c := b.Rail.Caps()
	if b.plant.caps != nil {
		b.plant.caps(&c)
	}
	return c
}

func (b *buggy) Connect(now time.Time, address []byte, deadline time.Time) (rail.PeerID, error) {
	id, err := b.Rail.Connect(now, address, deadline)
	if b.plant.connect != nil && err == nil {
		return b.plant.connect(b, id, address)
	}
	return id, err
}

func (b *buggy) Expect(now time.Time, address []byte, deadline time.Time) (rail.PeerID, error) {
	if b.plant.expect != nil {
		return b.plant.expect(b, now, address, deadline)
	}
	return b.Rail.Expect(now, address, deadline)
}

func (b *buggy) Disconnect(now time.Time, peer rail.PeerID) {
	if b.plant.leave != nil {
		b.plant.leave(b, now, peer)
		return
	}
	b.Rail.Disconnect(now, peer)
}

func (b *buggy) Register(memory []byte, access rail.Access) (rail.Registration, error) {
	if b.plant.register != nil {
		return b.plant.register(b, memory, access)
	}
	return b.Rail.Register(memory, access)
}

func (b *buggy) Post(peer rail.PeerID, ops []rail.Op) (int, error) {
	if b.plant.post != nil {
		return b.plant.post(b, peer, ops)
	}
	return b.Rail.Post(peer, ops)
}

func (b *buggy) Send(peer rail.PeerID, message []byte) (bool, error) {
	if b.plant.send != nil {
		return b.plant.send(b, peer, message)
	}
	return b.Rail.Send(peer, message)
}

func (b *buggy) Turn(now time.Time, events []rail.Event) (int, time.Time) {
	if b.plant.turn != nil {
		return b.plant.turn(b, now, events)
	}
	if b.plant.event == nil && len(b.extra) == 0 {
		return b.Rail.Turn(now, events)
	}
	own := make([]rail.Event, len(events))
	n, next := b.Rail.Turn(now, own)
	for _, e := range own[:n] {
		if b.plant.event == nil {
			b.extra = append(b.extra, e)
		} else {
			b.extra = append(b.extra, b.plant.event(b, e)...)
		}
	}
	n = copy(events, b.extra)
	b.extra = b.extra[n:]
	return n, next
}

func (b *buggy) Arm() bool {
	if b.plant.arm != nil {
		return b.plant.arm(b)
	}
	return b.Rail.Arm() || len(b.extra) > 0
}

func (b *buggy) Wait(ctx context.Context) error {
	if b.plant.wait != nil {
		return b.plant.wait(b, ctx)
	}
	return b.Rail.Wait(ctx)
}

func (b *buggy) Close() error {
	if b.plant.close != nil {
		return b.plant.close(b)
	}
	return b.Rail.Close()
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	text     []string
	cleanups []func()
}

func (r *recorder) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.text = append(r.text, text)
}

func (r *recorder) Helper()                           {}
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Cleanup(f func())                  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) FailNow()                          { r.fail(""); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.fail(fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(f string, args ...any)      { r.fail(fmt.Sprintf(f, args...)); runtime.Goexit() }

// run runs what may end with its goroutine.
func run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// try runs a clause on a rail with a bug, and returns what it said. The patience counts where a bug has it wait in real time.
func try(t *testing.T, c clause, p *plant, patience time.Duration) (failed bool, text string) {
	failed, text, _ = play(t, c, p, patience, rdmatest.Seed(t))
	return failed, text
}

// play is try with a seed, and returns the hash of what happened too.
func play(t *testing.T, c clause, p *plant, patience time.Duration, seed uint64) (failed bool, text string, hash uint64) {
	r := &recorder{TB: t}
	p.ended, p.network.Seed = make(chan struct{}), seed
	var network *simrail.Network
	suite := Suite{Virtual: true, Kills: 5, Connects: 50, Compute: 200 * time.Millisecond, Patience: patience,
		Network: func(testing.TB) Network {
			last := 0
			network = simrail.NewNetwork(p.network)
			return Network{
				Seed: p.network.Seed,
				Opener: func() rail.Opener {
					last++
					return p.opener(network.Rail(fmt.Sprintf("192.0.2.%d", last)))
				},
				Kill:  func(address []byte) { network.Kill(string(address)) },
				Again: func(address []byte) rail.Opener { return p.opener(network.Rail(string(address))) },
			}
		}}.withDefaults()
	run(func() { c.check(newWorld(r, &suite)) })
	failed, text, hash = r.failed, strings.Join(r.text, "\n"), network.Hash()
	for _, f := range slices.Backward(r.cleanups) {
		run(f)
	}
	close(p.ended)
	return failed, text, hash
}

// TestEveryPlantedBugIsFound also looks at whether every clause has a bug that it is there for.
func TestEveryPlantedBugIsFound(t *testing.T) {
	all, planted := clauses(), make(map[string]bool)
	for _, p := range plants() {
		planted[p.clause] = true
		t.Run(p.clause+"/"+p.bug, func(t *testing.T) {
			i := slices.IndexFunc(all, func(c clause) bool { return c.name == p.clause })
			require.GreaterOrEqual(t, i, 0)
			failed, text := try(t, all[i], &p, time.Second)
			require.True(t, failed, "the bug is not found")
			require.Contains(t, text, p.says)
		})
	}
	for _, c := range all {
		require.True(t, planted[c.name], "no bug is planted for %q", c.name)
	}
}

// TestASoundRailPasses shows that it is the bugs that are found.
func TestASoundRailPasses(t *testing.T) {
	for _, c := range clauses() {
		for _, network := range []simrail.Config{{}, {Delay: 5 * time.Millisecond}, {Immediates: 4},
			{TargetDriven: true, NoRecall: true}} {
			t.Run(c.name, func(t *testing.T) {
				failed, text := try(t, c, &plant{network: network}, time.Minute)
				require.False(t, failed, text)
			})
		}
	}
}

// TestAClauseReplaysItself packet by packet, unless it needs other goroutines.
func TestAClauseReplaysItself(t *testing.T) {
	seed := rdmatest.Seed(t)
	concurrent := []string{"memory of other goroutines", "arming and waiting", "a target that computes",
		"a receiver whose sender dies"}
	for _, c := range clauses() {
		if slices.Contains(concurrent, c.name) {
			continue
		}
		var hashes [3]uint64
		for i := range hashes {
			bug := plant{network: simrail.Config{Delay: time.Millisecond, PartialPosts: true, Immediates: 16}}
			_, _, hashes[i] = play(t, c, &bug, time.Minute, seed+uint64(i/2))
		}
		require.Equal(t, hashes[0], hashes[1], c.name)
		if c.name != "describes itself" && c.name != "nobody answers" { // where nothing is drawn
			require.NotEqual(t, hashes[0], hashes[2], c.name)
		}
	}
}
