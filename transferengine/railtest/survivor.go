package railtest

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Survivor is what a test main gives rdmatest.Main as a child, for suites whose survivors of kills live in processes of their
// own. For each line of its input, which is what a [Peer] prints, it connects to that peer, says so, posts to it until it is
// down, and prints what it saw. At the end of its input, or when a thread of its rail is stuck, it closes the rail.
func Survivor(open func(args []string) rail.Opener) func(args []string) int {
	return func(args []string) int {
		r, err := open(args).Open(rail.Incarnation{0: byte(os.Getpid()), 1: byte(os.Getpid() >> 8), 2: 1})
		if err != nil {
			fmt.Println("error", err)
			return 1
		}
		s := &survivor{newNode(&world{}, r)}
		if err := errors.Join(s.surviveAll(), s.closeInTime()); err != nil {
			fmt.Println("error", err)
			return 1
		}
		if s.stuck() > 0 {
			os.Exit(0) // past the look at what is left open: what is stuck is
		}
		return 0
	}
}

type survivor struct{ *node }

// stuck is how many threads of the process the rail has given up.
func (s *survivor) stuck() int {
	if r, can := s.rail.(rail.Sticker); can {
		return r.StuckThreads()
	}
	return 0
}

// surviveAll survives the peers of standard input, one after the other, until a thread is stuck.
func (s *survivor) surviveAll() (err error) {
	s.memory = pages(memorySize)
	if s.keys, err = s.rail.Register(s.memory, everything); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); s.stuck() == 0 && lines.Scan(); {
		var v victim
		if _, err := fmt.Sscanf(lines.Text(), "%x %d %d", &v.address, &v.memory.addr, &v.memory.key); err != nil {
			return err
		}
		id, err := s.rail.Connect(time.Now(), v.address, time.Now().Add(time.Minute))
		if err == nil {
			err = s.survive(id, &v)
		} else if s.stuck() == 0 {
			return err
		}
		fmt.Println("down", s.stuck(), len(s.done), err)
	}
	return nil
}

// survive posts to a peer until it is down, and returns why it is.
func (s *survivor) survive(id rail.PeerID, v *victim) error {
	if err := s.turnUntil("up", func() bool { return s.isUp(id) || s.isDown(id) }); err != nil {
		return err
	}
	fmt.Println("up")
	clear(s.done)
	posted := 0
	if err := s.turnUntil("down", func() bool {
		ops := []rail.Op{s.op(rail.Write, 0, v.memory, 0, 1+rand.IntN(100_000)), withImm(s.op(rail.Write, 0, v.memory, 0, 8), 1)}
		n, _ := s.rail.Post(id, ops) // which fails once the end is known, and is not reported yet
		for _, o := range ops[:n] {
			s.flying[o.Token] = id
		}
		posted += n
		return s.isDown(id)
	}); err != nil {
		return err
	}
	if len(s.done) != posted {
		return fmt.Errorf("of %d operations %d completed", posted, len(s.done))
	}
	return s.downs[id].Err
}

// turnUntil takes turns until the condition holds.
func (s *survivor) turnUntil(what string, met func() bool) error {
	for end := time.Now().Add(time.Minute); !met(); {
		n, _ := s.rail.Turn(time.Now(), s.events)
		for _, e := range s.events[:n] {
			if err := s.note(e); err != nil {
				return err
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("the peer is not %s within a minute", what)
		}
	}
	return nil
}

// closeInTime closes the rail, and prints how long that took.
func (s *survivor) closeInTime() error {
	start := time.Now()
	if err := s.close(); err != nil {
		return err
	}
	fmt.Println("closed", int(time.Since(start).Milliseconds()), s.stuck())
	return nil
}

// closesWithin is how long a survivor may take to close its rail: an engine's CloseTimeout is that by default.
const closesWithin = 5 * time.Second

// killedBesides kills peers of survivors in processes of their own, at random moments. A survivor whose thread is stuck closes
// its rail, and so does one in four of the others.
func killedBesides(w *world) {
	within := w.probe().DeathWithin + w.suite.limit(slack)
	var s *rdmatest.Child
	var survivors, stuck int
	var worst, slowest time.Duration
	for kill := 0; kill < w.suite.Kills; {
		if s == nil {
			s = rdmatest.StartChild(w.TB, w.network.Survivor, w.network.ChildArgs...)
			survivors++
		}
		v := rdmatest.StartChild(w.TB, w.network.Child, append(w.network.ChildArgs, "-")...)
		require.NoError(w, s.WriteLine(w.line(v), w.suite.Patience))
		line := w.line(s)
		if line == "up" {
			kill++
			time.Sleep(time.Duration(w.random.Int64N(int64(50 * time.Millisecond)))) // until a random moment
			v.Kill()
			start := time.Now()
			line = w.line(s)
			worst = max(worst, time.Since(start))
			require.Contains(w, line, rail.ErrPeerGone.Error(), "kill %d", kill)
			require.LessOrEqual(w, time.Since(start), within, "kill %d: %s", kill, line)
		}
		v.Kill()
		var threads, done, ms int
		_, err := fmt.Sscanf(line, "down %d %d", &threads, &done)
		require.NoError(w, err, line)
		if threads == 0 && kill < w.suite.Kills && w.random.IntN(4) > 0 {
			continue
		}
		require.NoError(w, s.CloseInput())
		line = w.line(s)
		_, err = fmt.Sscanf(line, "closed %d %d", &ms, &threads)
		require.NoError(w, err, line)
		took := time.Duration(ms) * time.Millisecond
		require.Less(w, took, w.suite.limit(closesWithin))
		require.NoError(w, s.Wait(w.suite.Patience))
		s, stuck, slowest = nil, stuck+threads, max(slowest, took)
	}
	w.Logf("%d kills: noticed after at most %v; %d survivors, %d with a call that was broken off; closed after at most %v",
		w.suite.Kills, worst, survivors, stuck, slowest)
}

// line is the next one that a child prints.
func (w *world) line(c *rdmatest.Child) string {
	w.Helper()
	line, err := c.ReadLine(w.suite.Patience)
	require.NoError(w, err)
	return line
}
