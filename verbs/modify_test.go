//go:build linux && cgo && !noverbs

package verbs_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/verbs"
)

// whole is what each step of bring-up needs, by transport.
var whole = map[verbs.QPType][3]verbs.QPAttrMask{
	verbs.RC: {
		verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess,
		verbs.AttrPath | verbs.AttrPathMTU | verbs.AttrRemoteQPN | verbs.AttrRQPSN | verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer,
		verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrSQPSN | verbs.AttrMaxRdAtomic,
	},
	verbs.UC: {
		verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess,
		verbs.AttrPath | verbs.AttrPathMTU | verbs.AttrRemoteQPN | verbs.AttrRQPSN,
		verbs.AttrSQPSN,
	},
	verbs.UD: {verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrQKey, 0, verbs.AttrSQPSN},
}

// Each attribute that a step needs is missed by name, and each that it does not take is refused by name.
func TestStateTableNamesTheAttribute(t *testing.T) {
	for typ, steps := range whole {
		for from, needed := range steps {
			from, to := verbs.QPState(from), verbs.QPState(from+1)
			t.Run(fmt.Sprintf("%v from %v", typ, from), func(t *testing.T) {
				require.NoError(t, verbs.CheckStep(typ, from, to, needed))
				for bit := range 26 {
					attr := verbs.QPAttrMask(1) << bit
					switch {
					case needed&attr != 0:
						err := verbs.CheckStep(typ, from, to, needed&^attr)
						require.ErrorIs(t, err, syscall.EINVAL)
						require.ErrorContains(t, err, "needs "+attr.String())
					case attr == verbs.AttrState:
					default:
						if err := verbs.CheckStep(typ, from, to, needed|attr); err != nil {
							require.ErrorContains(t, err, "does not take "+attr.String())
						}
					}
				}
			})
		}
	}
}

func TestStateTableKnowsItsSteps(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for from := verbs.QPReset; from <= verbs.QPError; from++ {
			require.NoError(t, verbs.CheckStep(typ, from, verbs.QPReset, verbs.AttrState))
			require.NoError(t, verbs.CheckStep(typ, from, verbs.QPError, verbs.AttrState))
			require.ErrorContains(t, verbs.CheckStep(typ, from, verbs.QPError, verbs.AttrState|verbs.AttrQKey), "does not take QKey")
		}
		for _, bad := range [][2]verbs.QPState{
			{verbs.QPReset, verbs.QPRTR}, {verbs.QPReset, verbs.QPRTS}, {verbs.QPInit, verbs.QPRTS}, {verbs.QPRTR, verbs.QPInit},
			{verbs.QPError, verbs.QPInit}, {verbs.QPRTS, verbs.QPInit}, {verbs.QPRTR, verbs.QPSQD},
		} {
			err := verbs.CheckStep(typ, bad[0], bad[1], verbs.AttrState)
			require.ErrorContains(t, err, fmt.Sprintf("a %v queue pair does not go from %v to %v", typ, bad[0], bad[1]))
		}
	}
}

// The manual path does what Init and Connect do.
func TestNullManualBringUp(t *testing.T) {
	n := newNull(t, nil)
	qp := n.queuePair(t, verbs.RC)
	steps := whole[verbs.RC]
	attr := verbs.QPAttr{
		State: verbs.QPInit, Port: 1, Access: remoteAccess, PathMTU: 1024, RemoteQPN: 7, RQPSN: 8, SQPSN: 9,
		Path: verbs.AHConfig{Port: 1, GIDIndex: 1, RemoteGID: n.gid.GID}, MinRNRTimer: 640 * time.Microsecond,
		Timeout: 67 * time.Millisecond, RetryCount: 6, RNRRetry: 6, MaxRdAtomic: 1, MaxDestRdAtomic: 1,
	}
	require.ErrorContains(t, qp.Modify(attr, verbs.AttrState|verbs.AttrPort|verbs.AttrAccess), "needs PKeyIndex")
	for i, state := range []verbs.QPState{verbs.QPInit, verbs.QPRTR, verbs.QPRTS} {
		attr.State = state
		require.NoError(t, qp.Modify(attr, verbs.AttrState|steps[i]))
	}
	got, err := qp.Query(verbs.AttrState | verbs.AttrPathMTU | verbs.AttrTimeout | verbs.AttrMinRNRTimer)
	require.NoError(t, err)
	require.Equal(t, verbs.QPRTS, got.State)
	require.Equal(t, verbs.MTU(1024), got.PathMTU)
	require.Equal(t, 4096*time.Nanosecond<<14, got.Timeout)
	require.Equal(t, 640*time.Microsecond, got.MinRNRTimer)
	_, err = qp.PostSend(sends(1), nil)
	require.NoError(t, err)
	require.NoError(t, qp.Modify(verbs.QPAttr{Access: remoteAccess}, verbs.AttrAccess), "in its state")
	require.NoError(t, qp.Modify(verbs.QPAttr{State: verbs.QPSQD, SQDNotify: true}, verbs.AttrState|verbs.AttrSQDNotify))
	got, err = qp.Query(verbs.AttrState | verbs.AttrSQDNotify)
	require.NoError(t, err)
	require.True(t, got.SQDNotify)
	n.null.Fail("ibv_modify_qp", 0, -1, syscall.EINVAL)
	require.ErrorContains(t, qp.Modify(verbs.QPAttr{State: verbs.QPRTS}, verbs.AttrState), "from send queue draining to ready to send")
}

func TestNullModifyRefusesValues(t *testing.T) {
	n := newNull(t, nil)
	qp := n.queuePair(t, verbs.RC)
	init := verbs.QPAttr{State: verbs.QPInit, Port: 1}
	require.NoError(t, qp.Modify(init, verbs.AttrState|whole[verbs.RC][0]))
	good := verbs.QPAttr{State: verbs.QPRTR, PathMTU: 1024, RemoteQPN: 7, Path: verbs.AHConfig{Port: 1, RemoteGID: n.gid.GID}}
	for name, change := range map[string]func(*verbs.QPAttr){
		"PathMTU":     func(a *verbs.QPAttr) { a.PathMTU = 1500 },
		"24 bits":     func(a *verbs.QPAttr) { a.RemoteQPN = 1 << 24 },
		"GID index":   func(a *verbs.QPAttr) { a.Path.GIDIndex = 256 },
		"static rate": func(a *verbs.QPAttr) { a.Path.StaticRate = 99 },
	} {
		attr := good
		change(&attr)
		err := qp.Modify(attr, verbs.AttrState|whole[verbs.RC][1])
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, qp.Modify(good, verbs.AttrState|whole[verbs.RC][1]))
}

// TestNullInitOnAPortThatIsNotActive: step by step, a queue pair may be made ready before its port is; what the port takes is
// asked again when it goes on.
func TestNullInitOnAPortThatIsNotActive(t *testing.T) {
	const down, active, mtu1024, mtu4096 = 1, 4, 3, 5
	n := newNull(t, func(null *cgotest.Null) { null.SetPort(1, cgotest.Port{State: down, MTU: mtu1024}) })
	connection, datagrams := n.queuePair(t, verbs.RC), n.queuePair(t, verbs.UD)
	_, err := connection.Init(n.gid, remoteAccess)
	require.ErrorContains(t, err, "port 1 of null0 is down")
	require.ErrorContains(t, datagrams.Activate(1, qkey), "port 1 of null0 is down")

	init := verbs.QPAttr{State: verbs.QPInit, Port: 1}
	require.NoError(t, connection.Modify(init, verbs.AttrState|whole[verbs.RC][0]))
	require.NoError(t, datagrams.Modify(init, verbs.AttrState|whole[verbs.UD][0]))
	n.null.SetPort(1, cgotest.Port{State: active, MTU: mtu4096, MaxMessage: 1 << 30})
	require.NoError(t, datagrams.Modify(verbs.QPAttr{State: verbs.QPRTR}, verbs.AttrState))
	require.NoError(t, datagrams.Modify(verbs.QPAttr{State: verbs.QPRTS}, verbs.AttrState|verbs.AttrSQPSN))
	ah, err := n.pd.CreateAH(n.to(1))
	require.NoError(t, err)
	closeAtEnd(t, ah)
	wr := datagram(ah.Ref())
	wr.NumSGE = 1
	_, err = datagrams.PostSend([]verbs.SendWR{wr}, []verbs.SGE{{Length: 4096}})
	require.NoError(t, err)
	_, err = datagrams.PostSend([]verbs.SendWR{wr}, []verbs.SGE{{Length: 4097}})
	require.ErrorContains(t, err, "longer than a message may be, 4096 bytes")
	n.take(t)
}

func TestRates(t *testing.T) {
	require.Equal(t, 2500, verbs.Rate(2).Mbps())
	require.Equal(t, verbs.Rate(16), verbs.RateOf(103125))
	require.Equal(t, -1, verbs.Rate(0).Mbps())
	require.Zero(t, verbs.RateOf(1))
}

// The values are those of rdma-core's own function.
func TestFlowLabelToUDPSport(t *testing.T) {
	for label, port := range map[uint32]uint16{0: 0xc000, 0xfffff: 0xffc0, 0xabcde: 0xfcf4, 1: 0xc001, 0x4000: 0xc001} {
		require.Equal(t, port, verbs.FlowLabelToUDPSport(label), "%#x", label)
	}
}

func TestNames(t *testing.T) {
	require.Equal(t, "GID change", verbs.EventGIDChange.String())
	require.Equal(t, "send with invalidate", verbs.OpSendInv.String())
	require.Equal(t, "UC", verbs.UC.String())
	require.Equal(t, "active", verbs.PortActive.String())
	require.Equal(t, "with everything", verbs.AtomicGlobal.String())
	require.Equal(t, "State, PathMTU, bit 19", (verbs.AttrState | verbs.AttrPathMTU | 1<<19).String())
	require.Equal(t, "unknown", verbs.ForkUnknown.String())
	require.Equal(t, "channel adapter", verbs.NodeCA.String())
	require.True(t, verbs.QPTypes(1<<verbs.RC).Has(verbs.RC))
	require.False(t, verbs.QPTypes(1<<verbs.RC).Has(verbs.UD))
	require.Equal(t, "safe, by the kernel", verbs.ForkUnneeded.String())
}
