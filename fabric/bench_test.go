//go:build linux && cgo && !nofabric && !noverbs

package fabric_test

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/affinity"
	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/mem"
)

func init() { children["bench"] = playBench }

// playBench measures writes with data to another process, csrc/test/fabric_loop.c, which is the target of three writers that
// take turns of a few milliseconds: a program in C (fabric_loop.c too); the same loop in C in this process, on this binding's
// endpoint; and the binding on that endpoint. Writers are on processor 0, the target on 1. scripts/bench-fabric.sh runs it:
//
//	bench LOOP PROVIDER ROUNDS SIZE…
//
// A SIZE such as self8 is 8 bytes that this process writes to itself, and takes in between what is timed: that is the
// initiator's time alone, where no other processor wants the lock of the queue that is written to.
func playBench(args []string) int {
	if err := bench(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const (
	benchMemory = 16 << 20
	benchTurn   = time.Millisecond
	benchTime   = 5 * time.Second // for a line of the table, unless its rounds take longer
)

func bench(args []string) error {
	rounds, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	if err := affinity.Pin(0); err != nil {
		return err
	}
	w := &writers{}
	if err := w.start(args[0], args[1]); err != nil {
		return err
	}
	for _, arg := range args[3:] {
		digits, self := strings.CutPrefix(arg, "self")
		size, err := strconv.Atoi(digits)
		if err != nil {
			return err
		}
		w.self = self
		for _, batch := range []int{64, 1} {
			if err := w.measure(args[1], size, batch, rounds); err != nil {
				return err
			}
		}
	}
	return w.close()
}

// program is one of csrc/test/fabric_loop.c.
type program struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (p *program) start(processor string, args ...string) (err error) {
	p.cmd = exec.Command("taskset", append([]string{"-c", processor}, args...)...)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	p.out = bufio.NewReader(out)
	return errors.Join(err, p.cmd.Start())
}

func (p *program) Close() error {
	_ = p.in.Close() // ends it
	return p.cmd.Wait()
}

// peer is whom writes go to.
type peer struct{ addr, base, key uint64 }

// writers are what takes turns.
type writers struct {
	process
	program, target program
	here            cgotest.Writes
	memory          fabric.Seg
	self            bool
	crossed         float64 // how many crossings an operation of the last run took
	peer, own       peer
	ops             []fabric.Op
	segs            []fabric.Seg
	completions     []fabric.Completion
	arrivals        [64]fabric.Completion
}

func (w *writers) start(loop, provider string) error {
	if err := w.target.start("1", loop, provider, "target", "2"); err != nil {
		return err
	}
	if err := w.program.start("0", loop, provider, "write"); err != nil {
		return err
	}
	if err := w.open(provider); err != nil {
		return err
	}
	m, err := mem.Map(benchMemory)
	if err != nil {
		return err
	}
	clear(m.Bytes()) // so that its pages are there
	mr, err := w.domain.RegMR(m.Bytes(), fabric.MRConfig{Access: fabric.AccessAll})
	if err != nil {
		return err
	}
	w.closers = append(w.closers, m, mr, &w.program, &w.target)
	w.memory = mr.Seg(0, 0)
	w.here = cgotest.Writes{Endpoint: w.ep.Raw(), CQ: w.cq.Raw(), MR: mr.Raw(), Memory: mr.Local()}
	w.own = peer{base: mr.Addr(), key: mr.RKey()}
	return w.meet()
}

// meet tells all three about one another.
func (w *writers) meet() error {
	name, err := w.ep.Name()
	if err != nil {
		return err
	}
	program, err := w.program.out.ReadString('\n')
	if err != nil {
		return err
	}
	target, err := w.target.out.ReadString('\n')
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w.program.in, target); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w.target.in, "%x 0 0\n%s", name, program); err != nil {
		return err
	}
	var peerName string
	if _, err := fmt.Sscan(target, &peerName, &w.peer.base, &w.peer.key); err != nil {
		return err
	}
	address, err := hex.DecodeString(peerName)
	if err != nil {
		return err
	}
	peers, err := w.av.Insert(address, name)
	if err != nil {
		return err
	}
	w.peer.addr, w.own.addr = uint64(peers[0]), uint64(peers[1])
	return nil
}

// prepare fills in what is written at a time.
func (w *writers) prepare(size, batch int) {
	to := w.peer
	if w.self {
		to = w.own
	}
	w.here.Size, w.memory.Length = uint64(size), uint64(size)
	w.here.Peer, w.here.Base, w.here.Key = to.addr, to.base, to.key
	w.ops, w.segs, w.completions = make([]fabric.Op, batch), make([]fabric.Seg, batch), make([]fabric.Completion, batch)
	for i := range batch {
		w.ops[i] = fabric.Op{ID: uint64(i + 1), Flags: fabric.FlagRemoteCQData, Peer: fabric.Addr(w.here.Peer), Data: uint64(i),
			RemoteAddr: w.here.Base, RemoteKey: w.here.Key, NumSeg: 1}
		w.segs[i] = w.memory
	}
}

// runCounted is run that notes how many crossings an operation took.
func (w *writers) runCounted(batches, batch int) error {
	before := w.ep.Crossings()
	err := w.run(batches)
	w.crossed = float64(w.ep.Crossings()-before) / float64(batches*batch)
	return err
}

// run has the binding write batches.
func (w *writers) run(batches int) error {
	for range batches {
		if err := w.batch(); err != nil {
			return err
		}
	}
	return nil
}

// batch writes a batch, and polls until it has completed.
func (w *writers) batch() error {
	for posted, done := 0, 0; done < len(w.ops); {
		accepted, n, err := w.ep.PostPoll(fabric.OpWrite, w.ops[posted:], w.segs[posted:], w.completions, fabric.MaxSpin)
		if err != nil && !errors.Is(err, fabric.ErrQueueFull) {
			return err
		}
		posted += accepted
		for i := range w.completions[:n] {
			if err := w.cq.Err(&w.completions[i]); err != nil {
				return err
			}
		}
		done += n
	}
	return nil
}

// The turns of a round, whose order changes from one to the next.
const (
	turnProgram = iota
	turnHere
	turnFabric
	numTurns
)

// turn returns the nanoseconds that a write took.
func (w *writers) turn(which, batch, batches int) (ns float64, err error) {
	if which == turnProgram {
		if _, err := fmt.Fprintln(w.program.in, w.here.Size, batch, batches); err != nil {
			return 0, err
		}
		_, err = fmt.Fscanln(w.program.out, &ns)
		return ns, err
	}
	run := func(batches int) error { return w.runCounted(batches, batch) }
	if which == turnHere {
		run = func(batches int) error { return w.here.Run(batch, batches) }
	}
	if w.self {
		return w.alone(run, batch, batches)
	}
	if err := run(1); err != nil { // finds its way back into the caches
		return 0, err
	}
	begin := time.Now()
	err = run(batches)
	return float64(time.Since(begin)) / float64(batch*batches), err
}

// alone times 64 writes at a time, and takes them in afterwards. What they complete is there when they have been posted: the
// queue is not empty before that, and only then the provider looks for what has come.
func (w *writers) alone(run func(int) error, batch, batches int) (ns float64, err error) {
	const section = 64
	var took time.Duration
	sections := max(1, batch*batches/section)
	for range sections {
		begin := time.Now()
		if err := run(section / batch); err != nil {
			return 0, err
		}
		took += time.Since(begin)
		if err := w.takeIn(section); err != nil {
			return 0, err
		}
	}
	return float64(took) / float64(section*sections), nil
}

// crossing is what a call into C costs that does nothing, in nanoseconds.
func crossing() float64 {
	const n = 20000
	begin := time.Now()
	for range n {
		cgotest.EmptyCrossing()
	}
	return float64(time.Since(begin)) / n
}

// each returns by how many nanoseconds an operation of the loop in C is longer that is entered by a crossing for each, with nothing
// of the binding: what leaving C and coming back costs where the operation is.
func (w *writers) each() (float64, error) {
	const n, rounds = 50, 200
	var longer []float64
	for range rounds {
		begin := time.Now()
		if err := w.here.Run(1, n); err != nil {
			return 0, err
		}
		once := time.Since(begin)
		begin = time.Now()
		for range n {
			if err := w.here.Run(1, 1); err != nil {
				return 0, err
			}
		}
		longer = append(longer, float64(time.Since(begin)-once)/n)
		if w.self {
			if err := w.takeIn(2 * n); err != nil {
				return 0, err
			}
		}
	}
	return quantile(longer, 0.5), nil
}

// takeIn takes what this process wrote to itself.
func (w *writers) takeIn(writes int) error {
	for come := 0; come < writes; {
		n, err := w.cq.Poll(w.arrivals[:])
		if err != nil {
			return err
		}
		come += n
	}
	return nil
}

// measure prints a line of the table.
func (w *writers) measure(provider string, size, batch, rounds int) error {
	w.prepare(size, batch)
	batches := 1
	for begin := time.Now(); ; batches *= 2 { // connects, warms up, and finds out how many a turn is
		if _, err := w.turn(turnHere, batch, batches); err != nil {
			return err
		}
		if took := time.Since(begin); took > benchTurn/2 {
			batches = max(1, int(float64(batches)*float64(benchTurn)/float64(took)))
			break
		}
		begin = time.Now()
	}
	first := turnProgram
	if w.self {
		first = turnHere
		provider += ", self"
	}
	var ns [numTurns][]float64
	var ratios, above, crossings, crossed []float64
	for begin := time.Now(); len(ratios) < rounds || time.Since(begin) < benchTime; {
		for i := first; i < numTurns; i++ {
			which := first + (i+len(ratios))%(numTurns-first)
			took, err := w.turn(which, batch, batches)
			if err != nil {
				return err
			}
			ns[which] = append(ns[which], took)
		}
		crossed = append(crossed, w.crossed)
		k := len(ratios)
		if w.self {
			ns[turnProgram] = append(ns[turnProgram], 0)
		}
		ratios = append(ratios, ns[turnFabric][k]/ns[turnHere][k])
		crossings = append(crossings, crossing())
		above = append(above, (ns[turnFabric][k]-ns[turnHere][k])/crossings[k])
	}
	var each float64
	if batch == 1 && size <= 64<<10 { // of longer ones there is nothing to be seen
		var err error
		if each, err = w.each(); err != nil {
			return err
		}
	}
	report(provider, size, batch, ns, ratios, above, crossings, crossed, each/quantile(crossings, 0.5))
	return nil
}

// quantile sorts, and returns the value that a part of all is below.
func quantile(values []float64, part float64) float64 {
	slices.Sort(values)
	return values[int(part*float64(len(values)-1)+0.5)]
}

func report(provider string, size, batch int, ns [numTurns][]float64, ratios, above, crossings, crossed []float64,
	each float64) {
	single, alone := "-", "-"
	if batch == 1 {
		single, alone = fmt.Sprintf("%.2f", quantile(above, 0.5)), fmt.Sprintf("%.2f", each)
	}
	fmt.Printf("%-9s %9d %3d %11.1f %11.1f %11.1f %7.3f %7.3f-%.3f %5d %7s %7s %6.1f %7.3f\n", provider, size, batch,
		quantile(ns[turnProgram], 0.5), quantile(ns[turnHere], 0.5), quantile(ns[turnFabric], 0.5), quantile(ratios, 0.5),
		quantile(ratios, 0.25), quantile(ratios, 0.75), len(ratios), single, alone, quantile(crossings, 0.5), quantile(crossed, 0.5))
}
