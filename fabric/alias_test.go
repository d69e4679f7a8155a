//go:build !asan

package fabric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// The one provider of this machine that has aliases does not free them, which ASan sees.
func TestAliasIsTheSameEndpoint(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, sockets, setting{hints: func(h *fabric.Hints) { h.Provider = sockets }})
	alias, err := x.ep.Alias(fabric.FlagSend | fabric.FlagCompletion)
	require.NoError(t, err)
	closeAtEnd(t, alias)
	b := x.buffer(16)
	x.recv(1, []fabric.Seg{b.Seg(8, 8)})
	x.post(alias.Send, []fabric.Op{{ID: 2, NumSeg: 1, Peer: x.meet(x.name)}}, []fabric.Seg{b.Seg(0, 8)})
	x.message()
}
