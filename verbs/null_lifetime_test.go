//go:build linux && cgo && !noverbs

package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

func init() { children["leak"] = leakRegion }

// leakRegion loses a region over a Go slice, with everything that refers to it, and collects.
func leakRegion([]string) int {
	collected := make(chan struct{})
	func() {
		null, err := cgotest.OpenNull()
		if err != nil {
			panic(err)
		}
		ctx, err := verbs.ImportContext(null.Context())
		if err != nil {
			panic(err)
		}
		pd, err := ctx.AllocPD()
		if err != nil {
			panic(err)
		}
		mr, err := pd.RegMR(make([]byte, 1<<16), verbs.AccessLocalWrite)
		if err != nil {
			panic(err)
		}
		runtime.AddCleanup(mr, func(gone chan struct{}) { close(gone) }, collected)
	}()
	rdmatest.Collect()
	<-collected
	fmt.Println("alive")
	return 0
}

// TestNullALeakedRegionDoesNotEndTheProcess: the memory stays pinned, since the device still knows it.
func TestNullALeakedRegionDoesNotEndTheProcess(t *testing.T) {
	limit := rdmatest.Deadline(20 * time.Second)
	child := rdmatest.StartChild(t, "leak")
	line, err := child.ReadLine(limit)
	require.NoError(t, err)
	require.Equal(t, "alive", line)
	require.ErrorContains(t, child.Wait(limit), "exit status 1")
	require.Contains(t, child.Stderr(), "memory region created by\n")
}

// closer is any object.
type closer interface{ Close() error }

// freeing is an object, and the calls into the driver that its Close makes, in their order.
type freeing struct {
	open  func(n *nullNode) (closer, error)
	steps []string
	late  bool // what fails after the first step may have freed what it was called for
	use   func(t *testing.T, n *nullNode, object closer) error
}

// expired is a context that has ended.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// to is an address handle's way to one of several peers.
func (n *nullNode) to(peer byte) verbs.AHConfig {
	return verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: verbs.GID{15: peer}}
}

func closedToCalls(ctx *verbs.Context) bool {
	_, err := ctx.QueryPort(1)
	return errors.Is(err, net.ErrClosed)
}

// freeings are all objects of this package for which the driver frees something.
var freeings = map[string]freeing{
	"PD": {
		open:  func(n *nullNode) (closer, error) { return n.ctx.AllocPD() },
		steps: []string{"ibv_dealloc_pd"},
		use: func(_ *testing.T, _ *nullNode, object closer) error {
			mr, err := object.(*verbs.PD).AllocNullMR()
			if err == nil {
				err = mr.Close()
			}
			_ = object.(*verbs.PD).Handle()
			return err
		},
	},
	"MR": {
		open:  func(n *nullNode) (closer, error) { return n.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite) },
		steps: []string{"ibv_dereg_mr"},
		use: func(_ *testing.T, _ *nullNode, object closer) error {
			_ = object.(*verbs.MR).Handle()
			return object.(*verbs.MR).ChangeAccess(verbs.AccessLocalWrite)
		},
	},
	"MW": {
		open:  func(n *nullNode) (closer, error) { return n.pd.AllocMW(verbs.MWType1) },
		steps: []string{"dealloc_mw"},
		use: func(t *testing.T, n *nullNode, object closer) error {
			qp, _ := n.connected(t)
			mr, err := n.pd.RegMR(make([]byte, 64), remoteAccess|verbs.AccessMWBind)
			require.NoError(t, err)
			closeAtEnd(t, mr)
			_, err = qp.BindMW(object.(*verbs.MW), verbs.BindConfig{MR: mr, Addr: mr.Addr(), Length: 64, Flags: verbs.SendSignaled})
			return err
		},
	},
	"AH": {
		open:  func(n *nullNode) (closer, error) { return n.pd.CreateAH(n.to(1)) },
		steps: []string{"ibv_destroy_ah"},
		use: func(t *testing.T, n *nullNode, object closer) error {
			_, err := n.datagrams(t).PostSend([]verbs.SendWR{{
				Opcode: verbs.OpSend, AH: object.(*verbs.AH).Ref(), Flags: verbs.SendSignaled,
			}}, nil)
			return err
		},
	},
	"AHCache": {
		open: func(n *nullNode) (closer, error) {
			cache, err := n.pd.NewAHCache()
			for peer := byte(0); err == nil && peer < 3; peer++ {
				_, err = cache.Get(n.to(peer + 1))
			}
			return cache, err
		},
		steps: []string{"ibv_destroy_ah", "ibv_destroy_ah", "ibv_destroy_ah"},
		use: func(_ *testing.T, n *nullNode, object closer) error {
			_, err := object.(*verbs.AHCache).Get(n.to(1))
			return err
		},
	},
	"CompChannel": {
		open:  func(n *nullNode) (closer, error) { return n.ctx.CreateCompChannel() },
		steps: []string{"ibv_destroy_comp_channel"},
		use: func(_ *testing.T, n *nullNode, object closer) error {
			cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 1, Channel: object.(*verbs.CompChannel)})
			if err == nil {
				err = cq.Close()
			}
			return err
		},
	},
	"CQ": {
		open:  func(n *nullNode) (closer, error) { return n.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Events: true}) },
		steps: []string{"ibv_destroy_cq", "ibv_destroy_comp_channel"},
		late:  true,
		use: func(t *testing.T, _ *nullNode, object closer) error {
			require.Error(t, object.(*verbs.CQ).Wait(expired()))
			_, err := object.(*verbs.CQ).Poll(make([]verbs.WC, 4))
			return err
		},
	},
	"SRQ": {
		open:  func(n *nullNode) (closer, error) { return n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4}) },
		steps: []string{"ibv_destroy_srq"},
		use: func(_ *testing.T, _ *nullNode, object closer) error {
			_, err := object.(*verbs.SRQ).PostRecv([]verbs.RecvWR{{}}, nil)
			return err
		},
	},
	"QP": {
		open: func(n *nullNode) (closer, error) {
			return n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4, MaxRecvWR: 4})
		},
		steps: []string{"ibv_destroy_qp"},
		use: func(_ *testing.T, _ *nullNode, object closer) error {
			_, err := object.(*verbs.QP).PostRecv([]verbs.RecvWR{{}}, nil)
			return err
		},
	},
	"Context": {
		open: func(n *nullNode) (closer, error) {
			ctx, err := verbs.ImportContext(n.null.Context())
			if err == nil {
				ctx.Own()
			}
			return ctx, err
		},
		steps: []string{"ibv_close_device"},
		use: func(t *testing.T, _ *nullNode, object closer) error {
			ctx := object.(*verbs.Context)
			_, _ = ctx.FD(), ctx.Vectors()
			select {
			case _, ok := <-ctx.Events():
				require.True(t, ok || closedToCalls(ctx), "an open device without events")
			default:
			}
			_, err := ctx.QueryPort(1)
			return err
		},
	},
}

// TestNullEveryStepOfEveryCloseFails: whatever goes wrong in a Close, a second one and calls after it are safe: either
// nothing was freed, and everything goes on; or the object is closed.
func TestNullEveryStepOfEveryCloseFails(t *testing.T) {
	for name, f := range freeings {
		for i, step := range f.steps {
			t.Run(fmt.Sprintf("%s, step %d", name, i+1), func(t *testing.T) {
				n := newNull(t, nil)
				object, err := f.open(n)
				require.NoError(t, err)
				after := 0 // how many steps before are the same call
				for _, earlier := range f.steps[:i] {
					if earlier == step {
						after++
					}
				}
				if i > 0 && f.late {
					n.null.FailLate(step, after, int(syscall.EIO))
				} else {
					n.null.Fail(step, after, int(syscall.EIO), 0)
				}
				live := n.null.Live()
				require.ErrorIs(t, object.Close(), syscall.EIO)
				left := n.null.Live()
				if err := f.use(t, n, object); err != nil {
					require.ErrorIs(t, err, net.ErrClosed)
				} else {
					require.Equal(t, live, left, "nothing is freed of an object that is open")
				}
				require.NoError(t, object.Close())
				require.ErrorIs(t, f.use(t, n, object), net.ErrClosed)
				require.NoError(t, object.Close())
			})
		}
	}
}
