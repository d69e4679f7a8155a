package verbsrail_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/railtest"
	"github.com/weftrdma/weft/transferengine/verbsrail"
	"github.com/weftrdma/weft/verbs"
)

// What docker/rxe/bench-engine.sh compares: the same traffic between two processes over the binding alone, and over engines.

const (
	benchMemory = 1 << 20
	benchDepth  = 32 // writes in flight
)

// sides are those that are compared.
var sides = []string{"binding", "inline", "dedicated"}

// BenchmarkEngineWrite keeps benchDepth writes to a peer process in flight. MB/s counts 1,000,000 bytes.
func BenchmarkEngineWrite(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		for _, side := range sides {
			b.Run(fmt.Sprintf("size=%d/%s", size, side), func(b *testing.B) {
				end := newBenchEnd(b, side, "idles")
				b.SetBytes(int64(size))
				b.ResetTimer()
				require.NoError(b, end.stream(b.N, size))
			})
		}
	}
}

// BenchmarkEnginePingPong sends a write of 8 bytes with an immediate to a peer process that answers with one, and reports
// half of the round trip, median, as us/one-way.
func BenchmarkEnginePingPong(b *testing.B) {
	for _, side := range sides {
		b.Run(side, func(b *testing.B) {
			end := newBenchEnd(b, side, "answers")
			samples := make([]time.Duration, b.N)
			b.ResetTimer()
			for i := range samples {
				start := time.Now()
				require.NoError(b, end.ping())
				samples[i] = time.Since(start)
			}
			slices.Sort(samples)
			b.ReportMetric(float64(samples[len(samples)/2].Nanoseconds())/2000, "us/one-way")
			b.ReportMetric(float64(samples[len(samples)*9/10].Nanoseconds())/2000, "us/one-way-p90")
			b.ReportMetric(float64(samples[len(samples)*99/100].Nanoseconds())/2000, "us/one-way-p99")
		})
	}
}

// BenchmarkEngineIdle is what an engine takes that is connected and has nothing to do.
func BenchmarkEngineIdle(b *testing.B) {
	device := rdmatest.Device(b)
	railtest.BenchmarkIdle(b, func() rail.Opener { return verbsrail.Config{Device: device} })
}

// benchEnd is one end of a connection. The other end answers each ping, or idles.
type benchEnd interface {
	stream(n, size int) error
	ping() error
	answer(ctx context.Context) error
}

func newBenchEnd(b *testing.B, side, peer string) benchEnd {
	device := rdmatest.Device(b)
	child := rdmatest.StartChild(b, "bench peer", device, side, peer)
	end, err := openBenchEnd(side, device, true, func(line string) error { return child.WriteLine(line, patience) },
		func() (string, error) { return child.ReadLine(patience) }, b.Cleanup)
	require.NoError(b, err)
	return end
}

// playBenchPeer is the other end, until its input ends.
func playBenchPeer(args []string) int {
	in := bufio.NewReader(os.Stdin)
	var cleanups []func()
	defer func() {
		for _, f := range slices.Backward(cleanups) {
			f()
		}
	}()
	end, err := openBenchEnd(args[1], args[0], false, func(line string) error { _, err := fmt.Println(line); return err },
		func() (string, error) { return in.ReadString('\n') }, func(f func()) { cleanups = append(cleanups, f) })
	if err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _, _ = io.Copy(io.Discard, in); cancel() }()
		if args[2] == "answers" {
			err = end.answer(ctx)
		}
		<-ctx.Done()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func openBenchEnd(side, device string, first bool, say func(string) error, hear func() (string, error),
	atEnd func(func())) (benchEnd, error) {
	switch side {
	case "binding":
		return openBindingEnd(device, say, hear, atEnd)
	case "dedicated":
		return openEngineEnd(device, transferengine.Dedicated, first, say, hear, atEnd)
	}
	return openEngineEnd(device, transferengine.Inline, first, say, hear, atEnd)
}

// engineEnd is an end with an engine.
type engineEnd struct {
	ctx       context.Context
	engine    *transferengine.Engine
	peer      *transferengine.Peer
	source    *transferengine.Region
	dest      transferengine.Descriptor
	pings     *transferengine.Counter
	pongs     *transferengine.Counter
	transfers [benchDepth]transferengine.Transfer
	next      int
}

func openEngineEnd(device string, progress transferengine.Progress, first bool, say func(string) error,
	hear func() (string, error), atEnd func(func())) (*engineEnd, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	atEnd(cancel)
	engine, err := transferengine.Open(transferengine.Config{Progress: progress,
		Rails: []rail.Opener{verbsrail.Config{Device: device}}})
	if err != nil {
		return nil, err
	}
	atEnd(func() { _ = engine.Close() })
	region, err := engine.Register(make([]byte, benchMemory), transferengine.RemoteWrite)
	if err != nil {
		return nil, err
	}
	atEnd(func() { _ = engine.Shutdown(ctx); _ = region.Close() })
	e := &engineEnd{ctx: ctx, engine: engine, source: region, pings: engine.Counter(1), pongs: engine.Counter(2)}
	descriptor, err := region.Descriptor().MarshalText()
	if err != nil {
		return nil, err
	}
	if err := say(engine.Address().String() + " " + string(descriptor)); err != nil {
		return nil, err
	}
	line, err := hear()
	if err != nil {
		return nil, err
	}
	addressText, descriptorText, _ := strings.Cut(strings.TrimSpace(line), " ")
	var address transferengine.Address
	if err := address.UnmarshalText([]byte(addressText)); err != nil {
		return nil, err
	}
	if err := e.dest.UnmarshalText([]byte(descriptorText)); err != nil {
		return nil, err
	}
	if !first { // it is called, and calls back to know whom
		if err := engine.Counter(0).Wait(ctx, 1); err != nil {
			return nil, err
		}
	}
	if e.peer, err = engine.Connect(ctx, address); err != nil {
		return nil, err
	}
	if first {
		err = e.write(8, 0, true)
	}
	return e, err
}

// write starts a write once its Transfer is free.
func (e *engineEnd) write(size int, imm uint32, hasImm bool) error {
	t := &e.transfers[e.next%benchDepth]
	if e.next >= benchDepth {
		if err := t.Wait(e.ctx); err != nil {
			return err
		}
	}
	e.next++
	return e.engine.Write(t, transferengine.Write{Peer: e.peer, Source: e.source, Dest: &e.dest, Length: uint64(size), Imm: imm,
		HasImm: hasImm})
}

func (e *engineEnd) stream(n, size int) error {
	for range n {
		if err := e.write(size, 0, false); err != nil {
			return err
		}
	}
	for i := range min(e.next, benchDepth) {
		if err := e.transfers[i].Wait(e.ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *engineEnd) ping() error {
	if err := e.write(8, 1, true); err != nil {
		return err
	}
	return e.pongs.WaitFrom(e.ctx, 1, e.peer)
}

func (e *engineEnd) answer(ctx context.Context) error {
	for e.pings.WaitFrom(ctx, 1, e.peer) == nil {
		if err := e.write(8, 2, true); err != nil {
			return err
		}
	}
	return nil
}

// bindingEnd is an end with a queue pair.
type bindingEnd struct {
	cq     *verbs.CQ
	qp     *verbs.QP
	sge    verbs.SGE
	remote bindingHello
	wcs    [2 * benchDepth]verbs.WC
	flying int // writes, of which every fourth is signalled
	posted int
	here   int // immediates that were not asked for yet
}

// bindingHello is what the ends tell each other, as a line of JSON.
type bindingHello struct {
	End  verbs.Endpoint
	Addr uint64
	RKey uint32
}

func openBindingEnd(device string, say func(string) error, hear func() (string, error), atEnd func(func())) (*bindingEnd, error) {
	ctx, err := verbs.Open(device)
	if err != nil {
		return nil, err
	}
	atEnd(func() { _ = ctx.Close() })
	table, err := ctx.GIDTable()
	if err != nil {
		return nil, err
	}
	gid, err := verbs.SelectGID(table, 1)
	if err != nil {
		return nil, err
	}
	pd, err := ctx.AllocPD()
	if err != nil {
		return nil, err
	}
	atEnd(func() { _ = pd.Close() })
	e := &bindingEnd{}
	if e.cq, err = ctx.CreateCQ(verbs.CQConfig{Depth: 4 * benchDepth}); err != nil {
		return nil, err
	}
	atEnd(func() { _ = e.cq.Close() })
	mr, err := pd.RegMR(make([]byte, benchMemory), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	atEnd(func() { _ = mr.Close() })
	e.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, MaxSendWR: 2 * benchDepth,
		MaxRecvWR: benchDepth})
	if err != nil {
		return nil, err
	}
	atEnd(func() { _ = e.qp.Close() })
	end, err := e.qp.Init(gid, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	e.sge = verbs.SGE{Addr: mr.Addr(), LKey: mr.LKey()}
	return e, e.meet(bindingHello{end, mr.Addr(), mr.RKey()}, say, hear)
}

// meet connects the queue pair, with receives for immediates.
func (e *bindingEnd) meet(own bindingHello, say func(string) error, hear func() (string, error)) error {
	if _, err := e.qp.PostRecv(make([]verbs.RecvWR, benchDepth), nil); err != nil {
		return err
	}
	text, err := json.Marshal(own)
	if err != nil {
		return err
	}
	if err := say(string(text)); err != nil {
		return err
	}
	line, err := hear()
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), &e.remote); err != nil {
		return err
	}
	return e.qp.Connect(e.remote.End, verbs.ConnectConfig{})
}

// post posts a write; every fourth, and all with immediates, ask for a completion.
func (e *bindingEnd) post(size int, imm bool) error {
	e.sge.Length = uint32(size)
	wr := [1]verbs.SendWR{{Opcode: verbs.OpWrite, NumSGE: 1, RemoteAddr: e.remote.Addr, RKey: e.remote.RKey, ID: 1}}
	if e.posted++; e.posted%4 == 0 {
		wr[0].Flags, wr[0].ID = verbs.SendSignaled, 4
	}
	if imm {
		wr[0].Opcode, wr[0].Flags, wr[0].ID = verbs.OpWriteImm, verbs.SendSignaled, 1
	}
	_, err := e.qp.PostSend(wr[:], []verbs.SGE{e.sge})
	e.flying++
	return err
}

// poll takes completions.
func (e *bindingEnd) poll() error {
	n, err := e.cq.PollSpin(e.wcs[:], verbs.MaxSpin)
	if err != nil {
		return err
	}
	for i := range e.wcs[:n] {
		wc := &e.wcs[i]
		switch {
		case wc.Status != verbs.WCSuccess:
			return wc.Err()
		case wc.Opcode == verbs.WCRecvWriteImm:
			e.here++
			if _, err := e.qp.PostRecv(make([]verbs.RecvWR, 1), nil); err != nil {
				return err
			}
		default:
			e.flying -= int(wc.ID)
		}
	}
	return nil
}

func (e *bindingEnd) stream(n, size int) error {
	for range (n + 3) / 4 * 4 {
		for e.flying >= benchDepth {
			if err := e.poll(); err != nil {
				return err
			}
		}
		if err := e.post(size, false); err != nil {
			return err
		}
	}
	for e.flying > 0 {
		if err := e.poll(); err != nil {
			return err
		}
	}
	return nil
}

func (e *bindingEnd) ping() error {
	if err := e.post(8, true); err != nil {
		return err
	}
	for end := time.Now().Add(rdmatest.Deadline(patience)); e.here == 0; {
		if err := e.poll(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return context.DeadlineExceeded
		}
	}
	e.here--
	return nil
}

func (e *bindingEnd) answer(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := e.poll(); err != nil {
			return err
		}
		for ; e.here > 0; e.here-- {
			if err := e.post(8, true); err != nil {
				return err
			}
		}
	}
	return nil
}
