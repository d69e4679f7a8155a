//go:build linux && cgo && !nofabric

package fabric_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// closing is an object, the objects that it stands on, and a call of it.
type closing struct {
	fabric.Object
	parents []fabric.Object
	use     func() error
}

func closerOf(object fabric.Object) interface{ Close() error } {
	return object.(interface{ Close() error })
}

// check closes an object whose provider refuses that at first. Nothing was freed then: the object can be used, those that it stands
// on cannot be closed, and a later Close frees it.
func (c closing) check(t *testing.T) {
	t.Helper()
	cgotest.RefuseClose(c.Raw(), syscall.EIO)
	err := closerOf(c.Object).Close()
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, "fi_close")
	if c.use != nil {
		require.NotErrorIs(t, c.use(), net.ErrClosed)
	}
	for _, parent := range c.parents {
		require.ErrorIs(t, closerOf(parent).Close(), syscall.EBUSY)
	}
	require.NoError(t, closerOf(c.Object).Close())
	require.NoError(t, closerOf(c.Object).Close(), "again")
	if c.use != nil {
		require.ErrorIs(t, c.use(), net.ErrClosed)
	}
}

// objectsOf are those of a domain with an address vector, the last ones first.
func objectsOf(t *testing.T, provider string) map[string]func(t *testing.T) closing {
	poll := func(cq *fabric.CQ) func() error {
		return func() error { return second(cq.Poll(nil)) }
	}
	return map[string]func(t *testing.T) closing{
		"fabric": func(t *testing.T) closing {
			infos, err := fabric.GetInfo(hintsOf(provider))
			require.NoError(t, err)
			f, err := fabric.OpenFabric(infos[0])
			require.NoError(t, err)
			return closing{f, nil, func() error {
				eq, err := f.OpenEQ(fabric.EQConfig{})
				if err == nil {
					err = eq.Close()
				}
				return err
			}}
		},
		"domain": func(t *testing.T) closing {
			x := open(t, provider, setting{})
			d, err := x.fabric.OpenDomain(x.info)
			require.NoError(t, err)
			return closing{d, []fabric.Object{x.fabric}, func() error { return second(d.MapKey(0, nil)) }}
		},
		"address vector": func(t *testing.T) closing {
			x := open(t, provider, setting{})
			av, err := x.domain.OpenAV(fabric.AVConfig{})
			require.NoError(t, err)
			return closing{av, []fabric.Object{x.domain}, func() error { return second(av.Insert(x.name)) }}
		},
		"completion queue": func(t *testing.T) closing {
			x := open(t, provider, setting{})
			cq, err := x.domain.OpenCQ(fabric.CQConfig{})
			require.NoError(t, err)
			return closing{cq, []fabric.Object{x.domain}, poll(cq)}
		},
		"event queue": func(t *testing.T) closing {
			x := open(t, provider, setting{})
			eq, err := x.fabric.OpenEQ(fabric.EQConfig{})
			require.NoError(t, err)
			return closing{eq, []fabric.Object{x.fabric}, func() error { return second(eq.Read()) }}
		},
		"counter": func(t *testing.T) closing {
			x := open(t, provider, setting{})
			c, err := x.domain.OpenCounter(fabric.CounterConfig{})
			require.NoError(t, err)
			return closing{c, []fabric.Object{x.domain}, func() error { return second(c.Read()) }}
		},
		"memory region": func(t *testing.T) closing {
			x := open(t, provider, setting{})
			mr, err := x.domain.RegMR(make([]byte, 64), fabric.MRConfig{})
			require.NoError(t, err)
			peer := x.meet(x.name)
			return closing{mr, []fabric.Object{x.domain}, func() error { // posts find it
				n, err := x.ep.Send([]fabric.Op{{ID: 1, NumSeg: 1, Peer: peer}}, []fabric.Seg{mr.Seg(0, 8)})
				if n == 0 && strings.Contains(err.Error(), "not that of an open memory region") {
					return net.ErrClosed
				}
				return err
			}}
		},
		"endpoint": func(t *testing.T) closing {
			x := open(t, provider, setting{})
			counter := opened[*fabric.Counter](t)(x.domain.OpenCounter(fabric.CounterConfig{}))
			cq := opened[*fabric.CQ](t)(x.domain.OpenCQ(fabric.CQConfig{}))
			ep, err := x.domain.OpenEndpoint(x.info, fabric.EndpointConfig{AV: x.av, TxCQ: x.cq, RxCQ: cq,
				Events: []fabric.CounterEvents{{Counter: counter, Events: fabric.CapSend}}})
			require.NoError(t, err)
			return closing{ep, []fabric.Object{x.domain, x.av, x.cq, cq, counter}, func() error { return second(ep.Name()) }}
		},
	}
}

func TestRefusedCloseFreesNothing(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		for name, open := range objectsOf(t, provider) {
			t.Run(name, func(t *testing.T) { open(t).check(t) })
		}
	})
}

func TestRefusedCloseOfRareObjectsFreesNothing(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	t.Run("queues with descriptors", func(t *testing.T) {
		x := open(t, "tcp", setting{})
		cq, err := x.domain.OpenCQ(fabric.CQConfig{Wait: fabric.WaitFD})
		require.NoError(t, err)
		closing{cq, []fabric.Object{x.domain}, func() error { return second(cq.Poll(nil)) }}.check(t)
		eq, err := x.fabric.OpenEQ(fabric.EQConfig{Wait: fabric.WaitFD})
		require.NoError(t, err)
		closing{eq, []fabric.Object{x.fabric}, func() error { return second(eq.Read()) }}.check(t)
	})
	t.Run("listener", func(t *testing.T) {
		s := openStation(t, "tcp", nil)
		l, err := s.fabric.Listen(s.info, s.eq)
		require.NoError(t, err)
		closing{l, []fabric.Object{s.fabric, s.eq}, func() error { return second(l.Name()) }}.check(t)
	})
	t.Run("shared receives", func(t *testing.T) {
		s := openStation(t, "tcp", func(h *fabric.Hints) { h.RxContexts = fabric.SharedTxContexts })
		srx, err := s.domain.OpenSharedRx(s.info)
		require.NoError(t, err)
		closing{srx, []fabric.Object{s.domain}, func() error { return second(srx.Name()) }}.check(t)
	})
	t.Run("group", func(t *testing.T) {
		x := open(t, "udp", setting{hints: func(h *fabric.Hints) {
			datagrams(h)
			h.Caps |= fabric.CapMulticast
		}, ep: func(x *side, cfg *fabric.EndpointConfig) {
			cfg.EQ = opened[*fabric.EQ](t)(x.fabric.OpenEQ(fabric.EQConfig{}))
		}})
		g, err := x.ep.Join(sockaddr("239.1.2.3", 17473))
		require.NoError(t, err)
		closing{g, []fabric.Object{x.ep}, func() error { return second(g.Addr()) }}.check(t)
	})
	t.Run("scalable", func(t *testing.T) {
		x := openSockets(t, func(h *fabric.Hints) { h.TxContexts, h.RxContexts = 2, 2 })
		av := opened[*fabric.AV](t)(x.domain.OpenAV(fabric.AVConfig{ContextBits: 1}))
		s, err := x.domain.OpenScalable(x.info, av)
		require.NoError(t, err)
		tx, err := s.Tx(0, x.cq)
		require.NoError(t, err)
		closing{tx, []fabric.Object{s, x.cq}, func() error { return tx.Cancel(1) }}.check(t)
		closing{s, []fabric.Object{x.domain, av}, func() error { return second(s.Name()) }}.check(t)
	})
	t.Run("shared sends", func(t *testing.T) {
		x := openSockets(t, func(h *fabric.Hints) { h.TxContexts, h.Caps = fabric.SharedTxContexts, fabric.CapMsg })
		stx, err := x.domain.OpenSharedTx(x.info)
		require.NoError(t, err)
		closing{stx, []fabric.Object{x.domain}, nil}.check(t)
	})
}

// TestEndpointThatLeavesAFileIsClosed: a process that gave up its rights cannot remove the files of its endpoint of shm. The endpoint
// is gone all the same.
func TestEndpointThatLeavesAFileIsClosed(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	ep, err := x.domain.OpenEndpoint(x.info, fabric.EndpointConfig{AV: x.av, TxCQ: x.cq, RxCQ: x.cq})
	require.NoError(t, err)
	name, err := ep.Name()
	require.NoError(t, err)
	base, _, _ := strings.Cut(strings.TrimPrefix(string(name), "fi_shm://"), ":")
	lock := filepath.Join("/dev/shm", base+".lock")
	require.NoError(t, os.Remove(lock))
	require.NoError(t, os.Mkdir(lock, 0o700)) // which cannot be removed with a file in it
	require.NoError(t, os.WriteFile(filepath.Join(lock, "x"), nil, 0o600))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(lock)) })

	require.ErrorContains(t, ep.Close(), lock)
	require.NoError(t, ep.Close(), "again")
	require.ErrorIs(t, second(ep.Name()), net.ErrClosed)
	require.ErrorIs(t, second(ep.Recv([]fabric.Op{{Peer: fabric.AddrUnspec}}, nil)), net.ErrClosed)
}
