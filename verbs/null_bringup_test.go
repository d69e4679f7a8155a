//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/verbs"
)

// A connection's sequence numbers begin anywhere in 24 bits, so that late packets of an earlier connection between the same
// queue pairs are not taken for the new one's: not at the queue pair's number, nor one behind the other.
func TestPSNIsRandom(t *testing.T) {
	n := newNull(t, nil)
	connections := map[string]func(*testing.T, *verbs.QP) uint32{
		"Init and Connect": func(t *testing.T, qp *verbs.QP) uint32 {
			local, err := qp.Init(n.gid, remoteAccess)
			require.NoError(t, err)
			remote := local
			remote.PSN ^= 0xffffff
			require.NoError(t, qp.Connect(remote, verbs.ConnectConfig{}))
			attr, err := qp.Query(verbs.AttrSQPSN | verbs.AttrRQPSN)
			require.NoError(t, err)
			require.Equal(t, local.PSN, attr.SQPSN, "what the peer is told is where its sends begin")
			require.Equal(t, remote.PSN, attr.RQPSN)
			return local.PSN
		},
		"Activate": func(t *testing.T, qp *verbs.QP) uint32 {
			require.NoError(t, qp.Activate(1, qkey))
			attr, err := qp.Query(verbs.AttrSQPSN)
			require.NoError(t, err)
			return attr.SQPSN
		},
	}
	for name, connect := range connections {
		t.Run(name, func(t *testing.T) {
			typ := verbs.RC
			if name == "Activate" {
				typ = verbs.UD
			}
			qp := n.queuePair(t, typ)
			const all = 1<<24 - 1
			ones, zeros, last, steps := uint32(0), uint32(0), uint32(0), map[uint32]int{}
			for range 64 { // a bit that is the same in all of them has one chance in 2^63
				psn := connect(t, qp)
				require.LessOrEqual(t, psn, uint32(all))
				ones, zeros = ones|psn, zeros|^psn
				steps[(psn-last)&all]++
				last = psn
				require.NoError(t, qp.Reset())
			}
			require.Equal(t, uint32(all), ones, "every bit is set at times")
			require.Equal(t, uint32(all), zeros&all, "and clear at times")
			require.Greater(t, len(steps), 32, "one does not follow from the other")
		})
	}
}

// infiniBand is a null device of two InfiniBand ports.
func infiniBand(null *cgotest.Null) {
	limits := ampleLimits
	limits.Ports = 2
	null.SetLimits(limits)
	for port := range uint8(2) {
		null.SetPort(port+1, cgotest.Port{State: 4, MTU: 5, MaxMessage: 1 << 30, LID: 0xc001 + uint16(port), LinkLayer: 1})
	}
	null.SetPKeys(4)
}

// The partition is the configured one, in both ways of bring-up; one that the port does not have is refused.
func TestPKeyIndexInBringUp(t *testing.T) {
	n := newNull(t, infiniBand)
	cfg := verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4, PKeyIndex: 3}
	rc, err := n.pd.CreateQP(cfg)
	require.NoError(t, err)
	closeAtEnd(t, rc)
	_, err = rc.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	cfg.Type = verbs.UD
	ud, err := n.pd.CreateQP(cfg)
	require.NoError(t, err)
	closeAtEnd(t, ud)
	require.NoError(t, ud.Activate(1, qkey))
	for _, qp := range []*verbs.QP{rc, ud} {
		attr, err := qp.Query(verbs.AttrPKeyIndex)
		require.NoError(t, err)
		require.Equal(t, uint16(3), attr.PKeyIndex)
	}
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UD} {
		cfg.Type, cfg.PKeyIndex = typ, 4
		beyond, err := n.pd.CreateQP(cfg)
		require.NoError(t, err)
		closeAtEnd(t, beyond)
		if typ == verbs.RC {
			_, err = beyond.Init(n.gid, remoteAccess)
		} else {
			err = beyond.Activate(1, qkey)
		}
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, "PKeyIndex is 4, the port's table has 4")
	}
}

// An alternate path is given with the connection, and armed.
func TestAlternatePath(t *testing.T) {
	n := newNull(t, infiniBand)
	alternate := verbs.AlternatePath{
		GID: verbs.GIDEntry{GID: gid(t, "fe80::2"), Port: 2, Index: 5}, RemoteLID: 0xc009, PKeyIndex: 2, Timeout: time.Second,
		Path: verbs.Path{ServiceLevel: 3, HopLimit: 9},
	}
	qp := n.queuePair(t, verbs.RC)
	remote, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, qp.Connect(remote, verbs.ConnectConfig{Alternate: &alternate}))
	attr, err := qp.Query(verbs.AttrAltPath | verbs.AttrMigState)
	require.NoError(t, err)
	require.Equal(t, verbs.AHConfig{Port: 2, GIDIndex: 5, RemoteLID: 0xc009, Path: alternate.Path}, attr.AltPath)
	require.Equal(t, []any{uint16(2), 4096 * time.Nanosecond << 18, verbs.MigRearm},
		[]any{attr.AltPKeyIndex, attr.AltTimeout, attr.MigState})
	require.Equal(t, "rearm", attr.MigState.String())

	// By hand: another path, armed anew, and gone over to.
	other := verbs.AHConfig{Port: 1, RemoteLID: 0xc00a, Path: verbs.Path{HopLimit: 1}}
	require.NoError(t, qp.Modify(verbs.QPAttr{AltPath: other, AltPKeyIndex: 1, MigState: verbs.MigRearm},
		verbs.AttrAltPath|verbs.AttrMigState))
	require.NoError(t, qp.Modify(verbs.QPAttr{MigState: verbs.MigMigrated}, verbs.AttrMigState))
	attr, err = qp.Query(verbs.AttrAltPath | verbs.AttrMigState)
	require.NoError(t, err)
	require.Equal(t, []any{other, uint16(1), time.Duration(0), verbs.MigMigrated},
		[]any{attr.AltPath, attr.AltPKeyIndex, attr.AltTimeout, attr.MigState})
}

func TestAlternatePathThatIsRefused(t *testing.T) {
	n := newNull(t, infiniBand)
	good := verbs.AlternatePath{GID: verbs.GIDEntry{Port: 2}, RemoteLID: 1}
	for name, change := range map[string]func(*verbs.AlternatePath){
		"no address":      func(a *verbs.AlternatePath) { a.RemoteLID = 0 },
		"P_Key":           func(a *verbs.AlternatePath) { a.PKeyIndex = 4 },
		"negative":        func(a *verbs.AlternatePath) { a.Timeout = -1 },
		"service level":   func(a *verbs.AlternatePath) { a.ServiceLevel = 16 },
		"no such port":    func(a *verbs.AlternatePath) { a.GID.Port = 3 },
		"index too large": func(a *verbs.AlternatePath) { a.GID.Index = 256 },
	} {
		bad := good
		change(&bad)
		qp := n.queuePair(t, verbs.RC)
		remote, err := qp.Init(n.gid, remoteAccess)
		require.NoError(t, err)
		require.ErrorIs(t, qp.Connect(remote, verbs.ConnectConfig{Alternate: &bad}), syscall.EINVAL, name)
		require.NoError(t, qp.Connect(remote, verbs.ConnectConfig{Alternate: &good}), "nothing was changed")
	}
	ethernet := newNull(t, nil)
	qp := ethernet.queuePair(t, verbs.RC)
	remote, err := qp.Init(ethernet.gid, remoteAccess)
	require.NoError(t, err)
	good.GID.Port = 1
	err = qp.Connect(remote, verbs.ConnectConfig{Alternate: &good})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "Ethernet")
}

// No device tells how many bytes it takes inline: fewer are tried where it says that these are too many, in either way.
func TestInlineBytesAreTriedDownwards(t *testing.T) {
	n := newNull(t, nil)
	cfg := verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4, MaxInline: 64}
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOMEM} {
		n.null.Fail("ibv_create_qp", 0, 0, errno)
		qp, err := n.pd.CreateQP(cfg)
		require.NoError(t, err)
		require.Equal(t, 32, qp.Caps().MaxInline)
		require.NoError(t, qp.Close())
	}
	n.null.Fail("ibv_create_qp", 0, 0, syscall.ENOSPC)
	_, err := n.pd.CreateQP(cfg)
	require.ErrorIs(t, err, syscall.ENOSPC, "for another reason")
}
