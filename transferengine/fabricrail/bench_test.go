package fabricrail_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
)

// playBench measures writes with an immediate between two processes, over the binding alone and over an engine that makes its own
// progress (inline) or has a thread for it (dedicated). Each of the two has a peer process of its own, which does nothing while
// it is not its turn. With inline this process is on one processor and the peers are on the next; a thread of its own needs
// both. scripts/bench-fabric.sh runs it:
//
//	bench ROUNDS SIDE SIZE…
func playBench(args []string) int {
	if err := bench(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const (
	benchMemory = 16 << 20
	benchDepth  = 64 // writes in flight
	benchTurn   = 3 * time.Millisecond
	benchTime   = 3 * time.Second // for a line of the table, unless its rounds take longer

	immPing, immPong, immStream = 1, 2, 3
)

// benchEnd is one end of a connection.
type benchEnd interface {
	// stream writes n times, with benchDepth in flight.
	stream(n, size int) error
	// ping writes, and waits for the answer.
	ping(size int) error
	// answer makes progress, and answers pings, until ctx ends.
	answer(ctx context.Context, size int) error
	close() error
}

// hello has an end told of the other.
type hello struct {
	say  func(string) error
	hear func() (string, error)
}

func openBenchEnd(side string, first bool, h hello) (benchEnd, error) {
	switch side {
	case "binding":
		return openBindingEnd(h)
	case "dedicated":
		return openEngineEnd(transferengine.Dedicated, first, h)
	}
	return openEngineEnd(transferengine.Inline, first, h)
}

// benchPeer is a process with the other end.
type benchPeer struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
	end benchEnd
}

func startBenchPeer(side string, pinned bool) (*benchPeer, error) {
	in, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &benchPeer{cmd: exec.Command(os.Args[0], side), in: ours}
	if pinned {
		p.cmd = exec.Command("taskset", "-c", "1", os.Args[0], side)
	}
	p.cmd.Env = append(os.Environ(), rdmatest.ChildVar+"=bench peer")
	p.cmd.Stdin, p.cmd.Stderr = in, os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	_ = in.Close() // the child's
	p.end, err = openBenchEnd(side, true, hello{p.say, func() (string, error) { return p.out.ReadString('\n') }})
	return p, err
}

func (p *benchPeer) say(line string) error {
	_, err := fmt.Fprintln(p.in, line)
	return err
}

// turn has the peer work while run does.
func (p *benchPeer) turn(size int, run func() error) error {
	if err := p.say(fmt.Sprint(size)); err != nil {
		return err
	}
	if _, err := p.out.ReadString('\n'); err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	if err := p.say("stop"); err != nil {
		return err
	}
	_, err := p.out.ReadString('\n')
	return err
}

func (p *benchPeer) close() error { return errors.Join(p.in.Close(), p.end.close(), p.cmd.Wait()) }

// playBenchPeer works from each odd line of its input, which says how long its answers are, to the next.
func playBenchPeer(args []string) int {
	debug.SetGCPercent(-1)
	lines := bufio.NewReader(os.Stdin)
	end, err := openBenchEnd(args[0], false, hello{func(line string) error { _, err := fmt.Println(line); return err },
		func() (string, error) { return lines.ReadString('\n') }})
	for err == nil {
		var size int
		if _, failed := fmt.Fscanln(lines, &size); failed != nil {
			break // the parent is done
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			fmt.Println("going")
			ended <- end.answer(ctx, size)
		}()
		_, failed := lines.ReadString('\n')
		cancel()
		if err = <-ended; failed != nil {
			break
		}
		fmt.Println("stopped")
	}
	if end != nil {
		err = errors.Join(err, end.close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench peer:", err)
		return 1
	}
	return 0
}

func bench(args []string) error {
	rounds, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	var peers [2]*benchPeer
	for i, side := range []string{"binding", args[1]} {
		if peers[i], err = startBenchPeer(side, args[1] == "inline"); err != nil {
			return fmt.Errorf("%s: %w", side, err)
		}
	}
	for _, arg := range args[2:] {
		size, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		for _, what := range []string{"stream", "ping"} {
			if err := measure(&peers, "tcp "+args[1], what, size, rounds); err != nil {
				return fmt.Errorf("%s of %d bytes: %w", what, size, err)
			}
		}
	}
	for _, p := range peers {
		err = errors.Join(err, p.close())
	}
	return err
}

// turn returns the nanoseconds of a write of a stream, or of half a round trip.
func turn(p *benchPeer, what string, size, n int) (ns float64, err error) {
	run, each := func(n int) error { return p.end.stream(n, size) }, 1.0
	if what == "ping" {
		each = 2
		run = func(n int) (err error) {
			for i := 0; i < n && err == nil; i++ {
				err = p.end.ping(size)
			}
			return err
		}
	}
	err = p.turn(size, func() error {
		if err := run(1); err != nil { // connects, and finds its way back into the caches
			return err
		}
		begin := time.Now()
		err := run(n)
		ns = float64(time.Since(begin)) / float64(n) / each
		return err
	})
	return ns, err
}

// measure prints a line of the table.
func measure(peers *[2]*benchPeer, name, what string, size, rounds int) error {
	var n [2]int
	for i, p := range peers {
		for n[i] = 1; ; n[i] *= 2 { // finds out how many a turn is
			ns, err := turn(p, what, size, n[i])
			if err != nil {
				return err
			}
			if ns*float64(n[i]) > float64(benchTurn/2) {
				break
			}
		}
	}
	var ns [2][]float64
	var ratios, above []float64
	for begin := time.Now(); len(ratios) < rounds || time.Since(begin) < benchTime; {
		k := len(ratios)
		for i := range peers {
			which := (i + k) % len(peers)
			took, err := turn(peers[which], what, size, n[which])
			if err != nil {
				return err
			}
			ns[which] = append(ns[which], took)
		}
		ratios = append(ratios, ns[0][k]/ns[1][k])
		above = append(above, ns[1][k]-ns[0][k])
	}
	fmt.Printf("%-14s %9d %-6s %11.0f %11.0f %7.3f %7.3f-%.3f %5d %8.0f\n", name, size, what, quantile(ns[0], 0.5),
		quantile(ns[1], 0.5), quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75), len(ratios),
		quantile(above, 0.5))
	return nil
}

// quantile sorts, and returns the value that a part of all is below.
func quantile(values []float64, part float64) float64 {
	slices.Sort(values)
	return values[int(part*float64(len(values)-1)+0.5)]
}

// fields splits a line that an end says.
func fields(line string) (first, second string) {
	first, second, _ = strings.Cut(strings.TrimSpace(line), " ")
	return first, second
}
