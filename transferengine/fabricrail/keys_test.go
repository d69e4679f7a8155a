package fabricrail_test

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

// TestKeysAreRandom: the keys of a rail's registrations do not repeat, also those of the same memory, and nothing in them is the same
// more often than chance makes it.
func TestKeysAreRandom(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	const registrations, width = 10_000, 63
	r := open(t, local(), 1).rail
	memory := make([]byte, 64)
	seen := make(map[uint64]bool, registrations)
	var set [width]int
	var last uint64
	near := 0
	for range registrations {
		keys, err := r.Register(memory, rail.RemoteWrite)
		require.NoError(t, err)
		key := keys.RemoteKey()
		require.NoError(t, keys.Close())
		require.False(t, seen[key], "%#x comes twice", key)
		seen[key] = true
		for bit := range set {
			set[bit] += int(key >> bit & 1)
		}
		if bits.Len64(max(key, last)-min(key, last)) < width-20 {
			near++
		}
		last = key
	}
	for bit, n := range set {
		require.InDelta(t, registrations/2, n, 6*50, "bit %d is set in %d of %d keys", bit, n, registrations) // 6 sigma
	}
	require.Less(t, near, 10, "neighbours in time are neighbours")
}

// outsider is an endpoint that no rail knows, in the hands of somebody who has read the address of one.
type outsider struct {
	t    *testing.T
	ep   *fabric.Endpoint
	cq   *fabric.CQ
	mr   *fabric.MR
	peer fabric.Addr
	own  []byte
}

func openOutsider(t *testing.T, to *end, cfg fabricrail.Config) *outsider {
	t.Helper()
	o := &outsider{t: t, own: make([]byte, 256)}
	hints := fabric.Hints{Provider: cfg.Provider, Node: cfg.Node, Caps: fabric.CapMsg | fabric.CapRMA}
	connected := cfg == local()
	if connected {
		hints.Type = fabric.Msg
	}
	infos, err := fabric.GetInfo(hints)
	require.NoError(t, err)
	f, err := fabric.OpenFabric(infos[0])
	require.NoError(t, err)
	o.closes(f)
	d, err := f.OpenDomain(infos[0])
	require.NoError(t, err)
	o.closes(d)
	o.cq, err = d.OpenCQ(fabric.CQConfig{})
	require.NoError(t, err)
	o.closes(o.cq)
	o.mr, err = d.RegMR(o.own, fabric.MRConfig{})
	require.NoError(t, err)
	o.closes(o.mr)
	if connected {
		o.call(f, d, infos[0], to)
		return o
	}
	av, err := d.OpenAV(fabric.AVConfig{})
	require.NoError(t, err)
	o.closes(av)
	o.ep, err = d.OpenEndpoint(infos[0], fabric.EndpointConfig{AV: av, TxCQ: o.cq, RxCQ: o.cq})
	require.NoError(t, err)
	o.closes(o.ep)
	peers, err := av.Insert(to.fabric().EndpointName())
	require.NoError(t, err)
	o.peer = peers[0]
	return o
}

func (o *outsider) closes(c interface{ Close() error }) {
	o.t.Cleanup(func() { require.NoError(o.t, c.Close()) })
}

// outsiders is how many there were.
var outsiders atomic.Int64

// call makes a connection, with a request in a name of its own.
func (o *outsider) call(f *fabric.Fabric, d *fabric.Domain, info *fabric.Info, to *end) {
	eq, err := f.OpenEQ(fabric.EQConfig{})
	require.NoError(o.t, err)
	o.closes(eq)
	o.ep, err = d.OpenEndpoint(info, fabric.EndpointConfig{EQ: eq, TxCQ: o.cq, RxCQ: o.cq})
	require.NoError(o.t, err)
	o.closes(o.ep)
	require.NoError(o.t, o.ep.Connect(to.fabric().EndpointName(), to.fabric().RequestOf(fmt.Append(nil, "outsider ", outsiders.Add(1)))))
	ctx := rdmatest.Context(o.t, patience)
	for {
		to.turn()
		e, err := eq.Read()
		require.NoError(o.t, err)
		require.NoError(o.t, ctx.Err())
		if e != nil {
			require.Equal(o.t, fabric.EventConnected, e.Type)
			return
		}
	}
}

// do posts one operation of length bytes, and returns how it ends.
func (o *outsider) do(post func([]fabric.Op, []fabric.Seg) (int, error), op fabric.Op, length uint64, target *end) error {
	o.t.Helper()
	op.ID, op.Peer = 1, o.peer
	var segs []fabric.Seg
	if length > 0 {
		op.NumSeg = 1
		segs = []fabric.Seg{o.mr.Seg(0, length)}
	}
	ctx := rdmatest.Context(o.t, patience)
	completions := make([]fabric.Completion, 1)
	for posted := 0; ; {
		if posted == 0 {
			posted, _ = post([]fabric.Op{op}, segs) // the connection is being made
		}
		target.turn()
		n, err := o.cq.Poll(completions)
		require.NoError(o.t, err)
		require.NoError(o.t, ctx.Err())
		if n > 0 {
			return o.cq.Err(&completions[0])
		}
	}
}

// TestRightsHoldForOutsiders: whoever has the key of memory can do with it what peers may, and nothing else, also when no rail of ours
// is between him and it.
func TestRightsHoldForOutsiders(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg fabricrail.Config, _ bool) { rightsHold(t, cfg) })
}

func rightsHold(t *testing.T, cfg fabricrail.Config) {
	for access, name := range map[rail.Access]string{rail.LocalOnly: "local only", rail.RemoteWrite: "write", rail.RemoteRead: "read"} {
		t.Run(name, func(t *testing.T) {
			b := open(t, cfg, 2)
			memory := []byte("01234567")
			keys, err := b.rail.Register(memory, access)
			require.NoError(t, err)
			defer func() { require.NoError(t, keys.Close()) }()
			op := fabric.Op{RemoteAddr: keys.RemoteAddr(), RemoteKey: keys.RemoteKey()}

			o := openOutsider(t, b, cfg)
			err = o.do(o.ep.Read, op, 8, b)
			if access == rail.RemoteRead {
				require.NoError(t, err)
				require.Equal(t, memory, o.own[:8])
			} else {
				require.Error(t, err)
				require.Equal(t, make([]byte, len(o.own)), o.own, "what may not be read was read")
			}
			o = openOutsider(t, b, cfg) // the refusal has cost the other its connection
			op.Flags = fabric.FlagDeliveryComplete
			err = o.do(o.ep.Write, op, 8, b)
			if access == rail.RemoteWrite {
				require.NoError(t, err)
				require.Equal(t, make([]byte, 8), memory)
			} else {
				require.Error(t, err)
				require.Equal(t, "01234567", string(memory))
			}
		})
	}
}

// TestAtomicsNeedAligned memory.
func TestAtomicsNeedAligned(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	r := open(t, local(), 1).rail
	memory := make([]byte, 32)
	memory = memory[8-mem.Addr(memory)%8:]
	_, err := r.Register(memory[1:17], rail.RemoteAtomic)
	require.ErrorContains(t, err, "not a multiple of 8")
	keys, err := r.Register(memory[:16], rail.RemoteAtomic)
	require.NoError(t, err)
	require.NoError(t, keys.Close())
}
