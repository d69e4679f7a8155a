//go:build linux && cgo && !noverbs

package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
