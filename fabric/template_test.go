package fabric_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// A scatter to a group of 64 peers is one crossing.
func TestScatterTo64PeersCrossesOnce(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	const size = 96
	for provider, peers := range map[string]int{"shm": 64, "tcp": 8} { // that many connections take seconds
		t.Run(provider, func(t *testing.T) {
			a := open(t, provider, setting{})
			from := a.buffer(peers * size)
			for i := range from.bytes {
				from.bytes[i] = byte(i*13 + i/size)
			}
			sides, to := make([]*side, peers), make([]buffer, peers)
			ops, patches := make([]fabric.Op, peers), make([]fabric.Patch, peers)
			hub := open(t, provider, setting{}) // their domain
			for i := range sides {
				sides[i] = hub.sibling()
				sides[i].meet(a.name)
				to[i] = hub.buffer(size)
				ops[i] = to[i].at(fabric.Op{
					ID: uint64(i + 1), Peer: a.meet(sides[i].name), Flags: fabric.FlagRemoteCQData, Data: uint64(1000 + i),
				}, 0)
				patches[i] = fabric.Patch{
					Addr: from.Local() + uint64(i*size), RemoteAddr: to[i].Addr(), Length: size, Index: uint32(i),
				}
			}
			connectAll(a, sides, ops)
			template, err := fabric.NewTemplate(fabric.TemplatePart{Endpoint: a.ep, Kind: fabric.OpWrite, Ops: ops, LKey: from.LKey()})
			require.NoError(t, err)
			closeAtEnd(t, template)
			require.Equal(t, peers, template.Len())
			before := a.ep.Crossings()
			n, err := template.Post(patches)
			require.NoError(t, err)
			require.Equal(t, peers, n)
			require.Equal(t, uint64(1), template.Crossings())
			require.Equal(t, before, a.ep.Crossings())
			for i, peer := range sides {
				require.Equal(t, uint64(1000+i), peer.arrival(a).Data)
				require.Equal(t, from.bytes[i*size:(i+1)*size], to[i].bytes)
			}
			for i := range sides {
				a.complete(uint64(i+1), sides...)
			}
		})
	}
}

// connectAll has every peer written to once: a provider over connections makes them on the way.
func connectAll(a *side, peers []*side, ops []fabric.Op) {
	for i, peer := range peers {
		op := ops[i]
		op.ID = 5000
		a.post(a.ep.Write, []fabric.Op{op}, nil, peer)
		peer.arrival(a)
		a.complete(5000, peer)
	}
}

func TestTemplateOfSeveralKinds(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		here, there := a.buffer(64), b.buffer(64)
		copy(here.bytes, "0123456789")
		copy(there.bytes[32:], "abcdef")
		template, err := fabric.NewTemplate(
			fabric.TemplatePart{Endpoint: a.ep, Kind: fabric.OpSend, Ops: []fabric.Op{{ID: 1}}, LKey: here.LKey()},
			fabric.TemplatePart{Endpoint: a.ep, Kind: fabric.OpTaggedSend, Ops: []fabric.Op{{ID: 2, Tag: 5}}, LKey: here.LKey()},
			fabric.TemplatePart{Endpoint: a.ep, Kind: fabric.OpWrite, Ops: []fabric.Op{{ID: 3, RemoteKey: there.RKey()}}, LKey: here.LKey()},
			fabric.TemplatePart{Endpoint: a.ep, Kind: fabric.OpRead, Ops: []fabric.Op{{ID: 4, RemoteKey: there.RKey()}}, LKey: here.LKey()},
		)
		require.NoError(t, err)
		closeAtEnd(t, template)
		b.recv(11, []fabric.Seg{there.Seg(0, 8)})
		b.post(b.ep.TaggedRecv, []fabric.Op{{ID: 12, NumSeg: 1, Tag: 5, Peer: fabric.AddrUnspec}}, []fabric.Seg{there.Seg(8, 8)})
		n, err := template.Post([]fabric.Patch{
			{Index: 0, Addr: here.Local(), Length: 2},
			{Index: 1, Addr: here.Local() + 2, Length: 2},
			{Index: 2, Addr: here.Local() + 4, Length: 2, RemoteAddr: there.Addr() + 16},
			{Index: 3, Addr: here.Local() + 32, Length: 6, RemoteAddr: there.Addr() + 32},
		})
		for err != nil { // the first post connects
			require.ErrorIs(t, err, fabric.ErrQueueFull)
			a.poll()
			b.poll()
			patches := []fabric.Patch{
				{Index: 0, Addr: here.Local(), Length: 2},
				{Index: 1, Addr: here.Local() + 2, Length: 2},
				{Index: 2, Addr: here.Local() + 4, Length: 2, RemoteAddr: there.Addr() + 16},
				{Index: 3, Addr: here.Local() + 32, Length: 6, RemoteAddr: there.Addr() + 32},
			}[n:]
			var more int
			more, err = template.Post(patches)
			n += more
		}
		require.Equal(t, 4, n)
		for id := range uint64(4) {
			a.complete(id+1, b)
		}
		b.message(a)
		b.message(a)
		a.until(func() bool { return string(there.bytes[16:18]) == "45" }, b)
		require.Equal(t, "01", string(there.bytes[0:2]))
		require.Equal(t, "23", string(there.bytes[8:10]))
		require.Equal(t, "abcdef", string(here.bytes[32:38]))
	})
}

func TestBadPatchesPostNothing(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := pair(t, "shm", setting{})
	from, to := a.buffer(64), b.buffer(64)
	ops := []fabric.Op{to.at(fabric.Op{ID: 1}, 0), to.at(fabric.Op{ID: 2}, 0)}
	template, err := fabric.NewTemplate(fabric.TemplatePart{Endpoint: a.ep, Kind: fabric.OpWrite, Ops: ops, LKey: from.LKey()})
	require.NoError(t, err)
	closeAtEnd(t, template)
	good := fabric.Patch{Addr: from.Local(), Length: 8, RemoteAddr: to.Addr()}
	for want, bad := range map[string]fabric.Patch{
		"has index 2":                  {Index: 2},
		"has index 0":                  {Index: 0},
		"not within its memory region": {Index: 1, Addr: from.Local() + 60, Length: 5},
	} {
		n, err := template.Post([]fabric.Patch{good, bad})
		require.Zero(t, n)
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, a.av.Remove(0))
	n, err := template.Post([]fabric.Patch{good})
	require.Zero(t, n)
	require.ErrorContains(t, err, "not in the endpoint's address vector")
	a.poll()
	require.Empty(t, a.done)
	for want, part := range map[string]fabric.TemplatePart{
		"flags that this":  {Endpoint: a.ep, Kind: fabric.OpRead, Ops: []fabric.Op{{Flags: fabric.FlagInject}}},
		"the peer is not":  {Endpoint: a.ep, Kind: fabric.OpWrite, Ops: []fabric.Op{{Peer: 9}}},
		"cannot be prepar": {Endpoint: a.ep, Kind: 1, Ops: ops},
	} {
		_, err := fabric.NewTemplate(part)
		require.ErrorContains(t, err, want)
	}
}
