package verbs_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/affinity"
	"github.com/weftrdma/weft/verbs"
)

// The benchmarks on a device are perftest's, done its way so that the two can be compared in one run (docker/rxe/bench.sh):
// two processes, RC, a queue of 128, one thread that posts and polls.

const (
	benchDepth  = 128
	benchSignal = 64 // every so many writes produce a completion
)

// BenchmarkWrite posts writes one by one, or in lists, to a peer process. MB/s counts 1,000,000 bytes.
func BenchmarkWrite(b *testing.B) {
	for _, tc := range []struct{ size, list int }{{4096, 1}, {65536, 1}, {1 << 20, 1}, {8, 64}} {
		b.Run(fmt.Sprintf("size=%d/list=%d", tc.size, tc.list), func(b *testing.B) {
			n := newNode(b)
			_, mr := n.region(b, peerSize, verbs.AccessLocalWrite)
			_, m, peer := n.joinPeer(b, mr, peerIdle)
			w := newWriter(n.cq, m.qp, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: peer.Addr, RKey: peer.RKey},
				sge(mr, 0, tc.size), tc.list)
			b.SetBytes(int64(tc.size))
			pin(1)
			require.NoError(b, w.warm())
			b.ResetTimer()
			require.NoError(b, w.run(b.N))
		})
	}
}

// writer keeps the send queue of a queue pair full.
type writer struct {
	cq   *verbs.CQ
	qp   *verbs.QP
	wrs  []verbs.SendWR
	sges []verbs.SGE
	wcs  [16]verbs.WC

	breath breath
}

func newWriter(cq *verbs.CQ, qp *verbs.QP, wr verbs.SendWR, from verbs.SGE, list int) *writer {
	w := &writer{cq: cq, qp: qp}
	wr.NumSGE = 1
	for range list {
		w.wrs = append(w.wrs, wr)
		w.sges = append(w.sges, from)
	}
	return w
}

// run writes n times and waits for the last.
func (w *writer) run(n int) error {
	posted, done := 0, 0
	for done < n {
		for posted < n && posted-done+len(w.wrs) <= benchDepth {
			k := min(len(w.wrs), n-posted)
			for i := range k {
				w.wrs[i].Flags = 0
				if at := posted + i + 1; at%benchSignal == 0 || at == n {
					w.wrs[i].Flags = verbs.SendSignaled
					w.wrs[i].ID = uint64(at)
				}
			}
			if _, err := w.qp.PostSend(w.wrs[:k], w.sges[:k]); err != nil {
				return err
			}
			posted += k
			w.breath.take(16 / k)
		}
		got, err := w.cq.PollSpin(w.wcs[:], verbs.MaxSpin)
		if err != nil {
			return err
		}
		for i := range w.wcs[:got] {
			if err := w.wcs[i].Err(); err != nil {
				return err
			}
			done = int(w.wcs[i].ID)
		}
	}
	return nil
}

// warm writes for 50 ms: what the runtime does about the blocking and the garbage of the set-up is over by then.
func (w *writer) warm() error {
	debug.FreeOSMemory()
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		if err := w.run(benchDepth); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkWriteLatency sends an 8-byte write to a peer process that answers with one, and reports half of the round trip,
// median, as us/one-way.
func BenchmarkWriteLatency(b *testing.B) {
	n := newNode(b)
	mem, mr := n.region(b, peerSize, remoteAccess)
	child, m, peer := n.joinPeer(b, mr, peerWrites)
	p := &pinger{qp: m.qp, cq: n.cq, mem: mem, mr: mr, peer: peer}
	pin(1)
	report(b, 2, "us/one-way", func() error {
		if err := p.send(); err != nil {
			return err
		}
		return p.receive(nil)
	})
	require.NoError(b, child.CloseInput())
}

// pin keeps the process, which spins, to processor 0 for the peer and 1 for the benchmark, as bench.sh does with perftest's
// two ends. That is not to lower GOMAXPROCS, as the runtime does when it sees fewer processors: without a P to spare its
// watching thread takes the only one away during each call into C that it sees twice.
func pin(processor int) {
	runtime.GOMAXPROCS(max(runtime.NumCPU(), 2))
	_ = affinity.PinProcess(processor) // where there is only one they share it
}

// breath lets the scheduler have a look every 5 ms at a loop that polls. A goroutine that goes on for 10 ms has its processor
// taken away, and the runtime's watching thread then wakes every 20 µs for a while (retake and sysmon in runtime/proc.go),
// which on an emulated processor costs a third of the rate.
type breath struct {
	n    int
	last time.Time
}

// take looks at the clock every so many calls.
func (b *breath) take(every int) {
	if b.n++; b.n < every {
		return
	}
	b.n = 0
	if now := time.Now(); now.Sub(b.last) > 5*time.Millisecond {
		b.last = now
		runtime.Gosched()
	}
}

// report runs a round b.N times and reports the median of its time, divided by parts, in microseconds. Rounds follow each
// other at once, so that one reading of the clock ends one and begins the next: as in perftest.
func report(b *testing.B, parts float64, unit string, round func() error) {
	samples := make([]time.Duration, b.N)
	var breath breath
	b.ResetTimer()
	start, begin := time.Now(), time.Duration(0)
	for i := range samples {
		breath.take(16)
		if err := round(); err != nil {
			b.Fatal(err)
		}
		end := time.Since(start) // half the cost of time.Now, which reads two clocks
		samples[i], begin = end-begin, end
	}
	b.StopTimer()
	b.ReportMetric(float64(median(samples).Nanoseconds())/1000/parts, unit)
}

// pinger is one end of a ping-pong of 8-byte writes, each with the next number. The number to send lies at the start of
// the memory, the one that arrives 64 bytes behind.
type pinger struct {
	qp   *verbs.QP
	cq   *verbs.CQ
	mem  []byte
	mr   *verbs.MR
	peer hello

	sent, received uint64
	wcs            [1]verbs.WC
	breath         breath
}

const arrival = 64

// send sends the next number, and waits for its completion before anything else, as perftest does: not inline either.
func (p *pinger) send() error {
	p.sent++
	binary.LittleEndian.PutUint64(p.mem, p.sent)
	if _, err := p.qp.PostSend([]verbs.SendWR{{
		Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, NumSGE: 1, RemoteAddr: p.peer.Addr + arrival, RKey: p.peer.RKey,
	}}, []verbs.SGE{sge(p.mr, 0, 8)}); err != nil {
		return err
	}
	for {
		if n, err := p.cq.PollSpin(p.wcs[:1], verbs.MaxSpin); err != nil {
			return err
		} else if n > 0 {
			return p.wcs[0].Err()
		}
	}
}

// receive spins until the next number has arrived, or the peer has ended.
func (p *pinger) receive(ends <-chan struct{}) error {
	p.received++
	deadline := time.Now().Add(10 * time.Second)
	for spins := 1; load(p.mem[arrival:]) < p.received; spins++ {
		p.breath.take(1 << 15)
		if spins%(1<<16) != 0 {
			continue
		}
		select {
		case <-ends:
			return errEnded
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("number %d did not arrive within 10 s", p.received)
		}
	}
	return nil
}

var errEnded = errors.New("the other end is done")

// load is not inlined, so that every turn of a spinning loop reads memory.
//
//go:noinline
func load(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// answer sends back every number that arrives.
func (p *pinger) answer(ends <-chan struct{}) error {
	for {
		err := p.receive(ends)
		if errors.Is(err, errEnded) {
			return nil
		}
		if err == nil {
			err = p.send()
		}
		if err != nil {
			return err
		}
	}
}
