package fabricrail_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
)

// engineEnd is an end with an engine.
type engineEnd struct {
	ctx       context.Context
	stop      func()
	engine    *transferengine.Engine
	peer      *transferengine.Peer
	region    *transferengine.Region
	dest      transferengine.Descriptor
	transfers [benchDepth]transferengine.Transfer
	next      int
	pings     *transferengine.Counter
	pongs     *transferengine.Counter
}

func openEngineEnd(progress transferengine.Progress, first bool, h hello) (*engineEnd, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	e := &engineEnd{ctx: ctx, stop: cancel}
	m, err := mem.Map(benchMemory)
	if err != nil {
		return nil, err
	}
	clear(m.Bytes()) // so that its pages are there
	cfg := transferengine.Config{Progress: progress, Rails: []rail.Opener{local()}}
	if e.engine, err = transferengine.Open(cfg); err != nil {
		return nil, err
	}
	e.pings, e.pongs = e.engine.Counter(immPing), e.engine.Counter(immPong)
	if e.region, err = e.engine.Register(m.Bytes(), transferengine.RemoteWrite); err != nil {
		return nil, err
	}
	e.stop = func() { cancel(); _ = m.Close() }
	descriptor, err := e.region.Descriptor().MarshalText()
	if err != nil {
		return nil, err
	}
	if err := h.say(e.engine.Address().String() + " " + string(descriptor)); err != nil {
		return nil, err
	}
	line, err := h.hear()
	if err != nil {
		return nil, err
	}
	addressText, descriptorText := fields(line)
	var address transferengine.Address
	if err := errors.Join(address.UnmarshalText([]byte(addressText)), e.dest.UnmarshalText([]byte(descriptorText))); err != nil {
		return nil, err
	}
	if !first { // it is called, and calls back to know whom
		if err := e.engine.Counter(0).Wait(ctx, 1); err != nil {
			return nil, err
		}
	}
	if e.peer, err = e.engine.Connect(ctx, address); err != nil {
		return nil, err
	}
	if first {
		err = e.write(8, 0)
	}
	return e, err
}

// write starts a write once its Transfer is free.
func (e *engineEnd) write(size int, imm uint32) error {
	t := &e.transfers[e.next%benchDepth]
	if e.next >= benchDepth {
		if err := t.Wait(e.ctx); err != nil {
			return err
		}
	}
	e.next++
	return e.engine.Write(t, transferengine.Write{Peer: e.peer, Source: e.region, Dest: &e.dest, Length: uint64(size), Imm: imm,
		HasImm: true})
}

func (e *engineEnd) stream(n, size int) error {
	for range n {
		if err := e.write(size, immStream); err != nil {
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

func (e *engineEnd) ping(size int) error {
	if err := e.write(size, immPing); err != nil {
		return err
	}
	return e.pongs.WaitFrom(e.ctx, 1, e.peer)
}

func (e *engineEnd) answer(ctx context.Context, size int) error {
	for e.pings.WaitFrom(ctx, 1, e.peer) == nil {
		if err := e.write(size, immPong); err != nil {
			return err
		}
	}
	return nil
}

func (e *engineEnd) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), rdmatest.Deadline(patience))
	defer cancel()
	err := errors.Join(e.engine.Shutdown(ctx), e.region.Close(), e.engine.Close())
	e.stop()
	return err
}

// bindingEnd is an end with an endpoint.
type bindingEnd struct {
	closers     []interface{ Close() error }
	ep          *fabric.Endpoint
	cq          *fabric.CQ
	ops         [benchDepth]fabric.Op
	segs        [benchDepth]fabric.Seg
	completions [benchDepth]fabric.Completion
	flying      int // writes
	pings       int // that were not answered
	pongs       int // that were not asked for
}

func openBindingEnd(h hello) (*bindingEnd, error) {
	e := &bindingEnd{}
	return e, e.open(h)
}

func (e *bindingEnd) open(h hello) error {
	hints := fabric.Hints{Provider: local().Provider, Caps: fabric.CapMsg | fabric.CapRMA, Node: local().Node}
	infos, err := fabric.GetInfo(hints)
	if err != nil {
		return err
	}
	f, err := fabric.OpenFabric(infos[0])
	if err != nil {
		return err
	}
	e.closers = append(e.closers, f)
	d, err := f.OpenDomain(infos[0])
	if err != nil {
		return err
	}
	e.closers = append(e.closers, d)
	av, err := d.OpenAV(fabric.AVConfig{})
	if err != nil {
		return err
	}
	e.closers = append(e.closers, av)
	if e.cq, err = d.OpenCQ(fabric.CQConfig{}); err != nil {
		return err
	}
	e.closers = append(e.closers, e.cq)
	if e.ep, err = d.OpenEndpoint(infos[0], fabric.EndpointConfig{AV: av, TxCQ: e.cq, RxCQ: e.cq}); err != nil {
		return err
	}
	e.closers = append(e.closers, e.ep)
	m, err := mem.Map(benchMemory)
	if err != nil {
		return err
	}
	clear(m.Bytes()) // so that its pages are there
	mr, err := d.RegMR(m.Bytes(), fabric.MRConfig{Access: fabric.AccessAll})
	if err != nil {
		return err
	}
	e.closers = append(e.closers, m, mr)
	return e.meet(av, mr, h)
}

// meet fills in the operations, once the other end is known. They complete as the rail's do.
func (e *bindingEnd) meet(av *fabric.AV, mr *fabric.MR, h hello) error {
	name, err := e.ep.Name()
	if err != nil {
		return err
	}
	if err := h.say(fmt.Sprintf("%x %d,%d", name, mr.Addr(), mr.RKey())); err != nil {
		return err
	}
	line, err := h.hear()
	if err != nil {
		return err
	}
	peerName, rest := fields(line)
	var addr, key uint64
	if _, err := fmt.Sscanf(rest, "%d,%d", &addr, &key); err != nil {
		return err
	}
	address, err := hex.DecodeString(peerName)
	if err != nil {
		return err
	}
	peers, err := av.Insert(address)
	if err != nil {
		return err
	}
	const flags = fabric.FlagRemoteCQData | fabric.FlagDeliveryComplete
	for i := range e.ops {
		e.ops[i] = fabric.Op{ID: 1, Flags: flags, Peer: peers[0], RemoteAddr: addr, RemoteKey: key, NumSeg: 1}
		e.segs[i] = mr.Seg(0, 0)
	}
	return nil
}

// turn posts up to n writes, polls, and returns how many were posted.
func (e *bindingEnd) turn(n, size int, imm uint64) (int, error) {
	for i := range n {
		e.ops[i].Data, e.segs[i].Length = imm, uint64(size)
	}
	posted, done, err := e.ep.PostPoll(fabric.OpWrite, e.ops[:n], e.segs[:n], e.completions[:], fabric.MaxSpin)
	if err != nil && !errors.Is(err, fabric.ErrQueueFull) {
		return posted, err
	}
	e.flying += posted
	for i := range e.completions[:done] {
		c := &e.completions[i]
		switch {
		case c.Failed():
			return posted, e.cq.Err(c)
		case c.ID != 0:
			e.flying--
		case c.Data == immPing:
			e.pings++
		case c.Data == immPong:
			e.pongs++
		}
	}
	return posted, nil
}

func (e *bindingEnd) stream(n, size int) error {
	for n > 0 || e.flying > 0 {
		posted, err := e.turn(min(n, benchDepth-e.flying), size, immStream)
		if err != nil {
			return err
		}
		n -= posted
	}
	return nil
}

func (e *bindingEnd) ping(size int) error {
	for left := 1; left > 0 || e.pongs == 0 || e.flying > 0; {
		posted, err := e.turn(left, size, immPing)
		if err != nil {
			return err
		}
		left -= posted
	}
	e.pongs--
	return nil
}

func (e *bindingEnd) answer(ctx context.Context, size int) error {
	for ctx.Err() == nil {
		posted, err := e.turn(min(e.pings, benchDepth-e.flying), size, immPong)
		if err != nil {
			return err
		}
		e.pings -= posted
	}
	return nil
}

func (e *bindingEnd) close() error {
	for _, c := range slices.Backward(e.closers) {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}
