package railtest

import (
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Peer is what a test main gives rdmatest.Main as a child, for suites whose peers are killed in processes of their own: a
// rail that prints its address and memory, connects to the address of its last argument if that is not "-", and takes turns
// until it is killed.
func Peer(open func(args []string) rail.Opener) func(args []string) int {
	return func(args []string) int {
		last := len(args) - 1
		fmt.Println("error", playPeer(open(args[:last]), args[last])) // which lives until it is killed
		return 1
	}
}

func playPeer(opener rail.Opener, to string) error {
	r, err := opener.Open(rail.Incarnation{0: byte(os.Getpid()), 1: byte(os.Getpid() >> 8)})
	if err != nil {
		return err
	}
	memory := pages(memorySize)
	keys, err := r.Register(memory, everything)
	if err != nil {
		return err
	}
	fmt.Printf("%x %d %d\n", r.Address(), keys.RemoteAddr(), keys.RemoteKey())
	if to != "-" {
		address, err := hex.DecodeString(to)
		if err != nil {
			return err
		}
		if _, err := r.Connect(time.Now(), address, time.Now().Add(time.Minute)); err != nil {
			return err
		}
	}
	for events := make([]rail.Event, 64); ; runtime.Gosched() {
		r.Turn(time.Now(), events)
	}
}

// victim is a peer that will be killed.
type victim struct {
	address []byte
	memory  remote
	nodes   []*node // that take its turns; none if a process of its own does
	kill    func()
}

// victim opens a peer that can be killed, and has it connect to the address if that is not nil.
func (w *world) victim(to []byte) *victim {
	w.Helper()
	if w.network.Child == "" {
		n := w.open()
		if to != nil {
			n.call(to)
		}
		return &victim{n.rail.Address(), n.remote(), []*node{n}, func() { w.network.Kill(n.rail.Address()) }}
	}
	text := "-"
	if to != nil {
		text = hex.EncodeToString(to)
	}
	child := rdmatest.StartChild(w.TB, w.network.Child, append(w.network.ChildArgs, text)...)
	line, err := child.ReadLine(w.suite.Patience)
	require.NoError(w, err)
	v := &victim{kill: child.Kill}
	_, err = fmt.Sscanf(line, "%x %d %d", &v.address, &v.memory.addr, &v.memory.key)
	require.NoError(w, err, line)
	return v
}

// killedInFlight kills a peer at a random moment, again and again, and connects to its next incarnation.
func killedInFlight(w *world) {
	a := w.open()
	for kill := range w.suite.Kills {
		v := w.victim(nil)
		all := append([]*node{a}, v.nodes...)
		id := a.call(v.address)
		w.until("up", func() bool { return a.isUp(id) }, all...)
		clear(a.done)
		posted := 0
		post := func() {
			n, err := a.tryPost(id, []rail.Op{a.op(rail.Write, 0, v.memory, 0, 1+w.random.IntN(100_000)),
				withImm(a.op(rail.Write, 0, v.memory, 0, 8), 1)})
			require.True(w, err == nil || a.downing(id), "%v", err)
			posted += n
		}
		for range 1 + w.random.IntN(300) {
			post()
			w.round(all)
		}
		v.kill()
		start := w.now()
		w.until("down", func() bool {
			if !a.isDown(id) && w.random.IntN(8) == 0 {
				post()
			}
			return a.isDown(id)
		}, all...)
		require.LessOrEqual(w, w.now().Sub(start), a.caps.DeathWithin+w.suite.limit(slack), "kill %d", kill)
		w.requireLost(a.downs[id])
		require.Equal(w, posted, len(a.done), "kill %d: each operation completes once", kill)
		w.settle(v)
	}
	v := w.victim(nil)
	id := a.call(v.address)
	w.until("its next incarnation is up", func() bool { return a.isUp(id) }, append([]*node{a}, v.nodes...)...)
	require.NoError(w, a.do(id, a.op(rail.Write, 0, v.memory, 0, 100), v.nodes...))
}

// downing tells whether the end of a peer is known to the rail, which refuses posts, though not reported yet.
func (n *node) downing(id rail.PeerID) bool {
	_, err := n.rail.Post(id, nil)
	return err != nil
}

// settle closes what is left of a victim in this process.
func (w *world) settle(v *victim) {
	for _, n := range v.nodes {
		for range 10 {
			n.turn()
		}
		require.NoError(w, n.close())
	}
}

// killedWhileWaiting has nothing in flight to notice by.
func killedWhileWaiting(w *world) {
	a := w.open()
	v := w.victim(a.rail.Address())
	all := append([]*node{a}, v.nodes...)
	w.until("up", func() bool { return len(a.ups) == 1 }, all...)
	w.pass(200*time.Millisecond, all...)
	require.Empty(w, a.downs)
	v.kill()
	start := w.now()
	w.until("down", func() bool { return a.isDown(a.ups[0]) }, a)
	require.ErrorIs(w, a.downs[a.ups[0]].Err, rail.ErrPeerGone)
	require.LessOrEqual(w, w.now().Sub(start), a.caps.DeathWithin+w.suite.limit(slack))
	w.Logf("noticed after %v: %v", w.now().Sub(start), a.downs[a.ups[0]].Err)
}

// startedAgain has a peer's next incarnation take its address, before its end was noticed.
func startedAgain(w *world) {
	if w.network.Again == nil {
		return
	}
	a, b, atA, _ := w.pair()
	before := a.infos[atA]
	w.network.Kill(b.rail.Address())
	again := w.openBy(w.network.Again(b.rail.Address()), memorySize, everything)
	w.until("down", func() bool { return a.isDown(atA) }, a, b, again)
	w.requireLost(a.downs[atA])
	next, _ := w.connect(a, again)
	require.NotEqual(w, atA, next)
	now := a.infos[next]
	require.Equal(w, before.Address, now.Address)
	require.NotEqual(w, before.Incarnation, now.Incarnation, "it is another one")
	copy(a.memory, "to the next")
	require.NoError(w, a.do(next, a.op(rail.Write, 0, again.remote(), 0, 11), again))
	require.Equal(w, "to the next", string(again.memory[:11]))
}

// usage is what a process has of what can leak.
type usage struct{ descriptors, threads, goroutines, heap int }

func measure() (u usage) {
	for range 3 {
		runtime.GC()
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.descriptors = len(open)
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		_, after, _ := strings.Cut(string(status), "Threads:")
		_, _ = fmt.Sscan(after, &u.threads)
	}
	u.goroutines = runtime.NumGoroutine()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.heap = int(m.HeapAlloc)
	return u
}

// nothingLeaks connects and disconnects again and again. A tenth of it is for what grows once.
func nothingLeaks(w *world) {
	a, b := w.open(), w.open()
	once := func(i int) {
		atA, atB := w.connect(a, b)
		require.NoError(w, a.do(atA, withImm(a.op(rail.Write, 0, b.remote(), 0, 8), 1), b))
		if i%2 == 0 {
			a.rail.Disconnect(w.now(), atA)
		} else {
			b.rail.Disconnect(w.now(), atB)
		}
		w.until("down at both ends", func() bool { return a.isDown(atA) && b.isDown(atB) }, a, b)
		for _, n := range []*node{a, b} { // what the harness itself keeps
			n.ups, n.immediates = n.ups[:0], n.immediates[:0]
			clear(n.downs)
			clear(n.done)
		}
	}
	for i := range w.suite.Connects / 10 {
		once(i)
	}
	w.pass(time.Second, a, b)
	before := measure()
	for i := range w.suite.Connects {
		once(i)
	}
	w.pass(time.Second, a, b)
	after := measure()
	w.Logf("%d connects: before %+v, after %+v", w.suite.Connects, before, after)
	require.LessOrEqual(w, after.descriptors, before.descriptors, "descriptors")
	require.LessOrEqual(w, after.threads, before.threads+2, "threads; the scheduler may start one or two")
	require.LessOrEqual(w, after.goroutines, before.goroutines, "goroutines")
	require.LessOrEqual(w, after.heap, before.heap+256<<10, "bytes of heap")
}
