//go:build linux && cgo && !noverbs && !nofabric

package fabricrail_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
	"github.com/weftrdma/weft/verbs"
)

// onVerbs is the opener of a rail over a device that only answers.
func onVerbs(t *testing.T) rail.Opener {
	null, err := cgotest.OpenNull()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, null.Close()) })
	null.SetPort(1, cgotest.Port{State: 4, MTU: 3, MaxMessage: 8 << 20, LinkLayer: 2})
	ctx, err := verbs.ImportContext(null.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	return verbsrail.Config{Context: ctx}
}

// TestEnginesOnDifferentRailsRefuse each other, both ways, with an error that names both rails.
func TestEnginesOnDifferentRailsRefuse(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	network := simrail.NewNetwork(simrail.Config{})
	kinds := []struct {
		opener rail.Opener
		rail   string // as its own errors name it
	}{
		{onVerbs(t), "verbs:null0"}, {local(), "fabric:tcp"},
		{network.Rail("192.0.2.1"), "sim:192.0.2.1"},
	}
	engines := make([]*transferengine.Engine, len(kinds))
	for i, k := range kinds {
		var err error
		engines[i], err = transferengine.Open(transferengine.Config{Rails: []rail.Opener{k.opener}, CloseTimeout: rdmatest.Deadline(5 * time.Second)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, engines[i].Close()) })
	}
	ctx := rdmatest.Context(t, patience)
	for i, from := range kinds {
		for j, to := range kinds {
			if i == j {
				continue
			}
			_, err := engines[i].Connect(ctx, engines[j].Address())
			require.ErrorContains(t, err, "over "+from.rail+": ", "%s to %s", from.rail, to.rail)
			kind, _, _ := strings.Cut(to.rail, ":")
			ownKind, _, _ := strings.Cut(from.rail, ":")
			require.ErrorContains(t, err, "has no rail of kind "+ownKind+", only "+kind+": ")
			require.Empty(t, engines[j].Peers(), "nothing was sent to it")
		}
	}
}
