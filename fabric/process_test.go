package fabric_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
)

const targetSize = 1 << 20

// playTarget is a process that is written to: it tells its address and its memory, learns its peer's address, takes one
// write with data after another, and answers each with the sum of its bytes. It ends with its input.
func playTarget(args []string) int {
	if err := target(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a side of a child: without a test, it returns errors.
type process struct {
	closers []interface{ Close() error }
	ep      *fabric.Endpoint
	av      *fabric.AV
	cq      *fabric.CQ
	domain  *fabric.Domain
	info    *fabric.Info
	hints   func(*fabric.Hints) // changes what is asked for
}

func (p *process) open(provider string) error {
	if err := p.openQueue(provider); err != nil {
		return err
	}
	return p.openEndpoint()
}

// openQueue opens all that an endpoint needs.
func (p *process) openQueue(provider string) error {
	hints := hintsOf(provider)
	if p.hints != nil {
		p.hints(&hints)
	}
	infos, err := fabric.GetInfo(hints)
	if err != nil {
		return err
	}
	p.info = infos[0]
	f, err := fabric.OpenFabric(p.info)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, f)
	if p.domain, err = f.OpenDomain(p.info); err != nil {
		return err
	}
	p.closers = append(p.closers, p.domain)
	if p.av, err = p.domain.OpenAV(fabric.AVConfig{}); err != nil {
		return err
	}
	p.closers = append(p.closers, p.av)
	if p.cq, err = p.domain.OpenCQ(fabric.CQConfig{}); err != nil {
		return err
	}
	p.closers = append(p.closers, p.cq)
	return nil
}

func (p *process) openEndpoint() (err error) {
	if p.ep, err = p.domain.OpenEndpoint(p.info, fabric.EndpointConfig{AV: p.av, TxCQ: p.cq, RxCQ: p.cq}); err != nil {
		return err
	}
	p.closers = append(p.closers, p.ep)
	return nil
}

// close closes all in the order that is right.
func (p *process) close() error {
	for i := len(p.closers) - 1; i >= 0; i-- {
		if err := p.closers[i].Close(); err != nil {
			return err
		}
	}
	return nil
}

func target(provider string) error {
	var p process
	if err := p.open(provider); err != nil {
		return err
	}
	m, err := mem.Map(targetSize)
	if err != nil {
		return err
	}
	mr, err := p.domain.RegMR(m.Bytes(), fabric.MRConfig{Access: fabric.AccessAll})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, m, mr)
	name, err := p.ep.Name()
	if err != nil {
		return err
	}
	fmt.Println(hex.EncodeToString(name), mr.Addr(), mr.RKey())
	lines := bufio.NewScanner(os.Stdin)
	ended := make(chan struct{})
	if !lines.Scan() {
		return fmt.Errorf("no peer: %w", lines.Err())
	}
	peer, err := hex.DecodeString(lines.Text())
	if err != nil {
		return err
	}
	if _, err := p.av.Insert(peer); err != nil {
		return err
	}
	go func() {
		for lines.Scan() {
		}
		close(ended)
	}()
	return serve(&p, m.Bytes(), ended)
}

// serve answers writes until its input has ended.
func serve(p *process, memory []byte, ended <-chan struct{}) error {
	var completions [16]fabric.Completion
	for {
		n, err := p.cq.Poll(completions[:])
		if err != nil {
			return err
		}
		for i := range completions[:n] {
			if err := p.cq.Err(&completions[i]); err != nil {
				return err
			}
			fmt.Println(completions[i].Data, sum(memory))
		}
		select {
		case <-ended:
			return p.close()
		default:
		}
	}
}

func sum(b []byte) (n uint64) {
	for _, v := range b {
		n += uint64(v)
	}
	return n
}

// remote is a child that plays target, as its parent sees it.
type remote struct {
	*rdmatest.Child
	peer      fabric.Addr
	addr, key uint64
}

// start starts a target for a side to write to.
func (x *side) start(provider string) remote {
	x.t.Helper()
	r := remote{Child: rdmatest.StartChild(x.t, "target", provider)}
	line, err := r.ReadLine(patience)
	require.NoError(x.t, err)
	var name string
	_, err = fmt.Sscan(line, &name, &r.addr, &r.key)
	require.NoError(x.t, err)
	address, err := hex.DecodeString(name)
	require.NoError(x.t, err)
	r.peer = x.meet(address)
	require.NoError(x.t, r.WriteLine(hex.EncodeToString(x.name), patience))
	return r
}

func TestWriteToAnotherProcess(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a := open(t, provider, setting{})
		r := a.start(provider)
		from := a.buffer(targetSize)
		for round := range uint64(5) {
			for i := range from.bytes {
				from.bytes[i] = byte(uint64(i)*round + round)
			}
			a.post(a.ep.Write, []fabric.Op{{
				ID: round + 1, NumSeg: 1, Flags: fabric.FlagRemoteCQData, Data: round, Peer: r.peer, RemoteAddr: r.addr, RemoteKey: r.key,
			}}, from.all())
			a.complete(round + 1)
			line, err := r.ReadLine(patience)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(round, sum(from.bytes)), line)
		}
		require.NoError(t, r.CloseInput())
		require.NoError(t, r.Wait(patience))
	})
}
