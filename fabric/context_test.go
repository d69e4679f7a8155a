//go:build linux && cgo && !nofabric

package fabric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/cgotest"
)

func askForContexts(_ testing.TB, info *fabric.Info) {
	cgotest.SetInfoMode(info.Raw(), uint64(fabric.ModeContext2))
}

// A provider such as efa-direct keeps notes where an operation's context points to. No provider of this machine does; but
// the shim gives one that says so a place for each operation, and takes it back, so all has to work as without.
func TestContextsOfProvidersAreKept(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		for name, test := range map[string]func(*testing.T, string, setting){
			"sends": sendsInEveryForm, "writes": writesInEveryForm, "multi-receives": multiRecvs, "tags": taggedMessages,
			"selective": selectiveCompletions, "cancel": cancelled, "batch": batches, "post and poll": postsAndPolls, "truncated": truncated,
		} {
			t.Run(name, func(t *testing.T) { test(t, provider, setting{contexts: true}) })
		}
	})
}

// Thousands of operations in flight are more than one slab of places.
func TestPlacesOfContextsAreHadBack(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{contexts: true})
		from, to := a.buffer(8), b.buffer(8)
		for round := range 4 {
			for i := range 600 {
				a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: uint64(i + 1), NumSeg: 1}, 0)}, from.all(), b)
			}
			for i := range 600 {
				a.complete(uint64(i+1), b)
			}
			require.Empty(t, a.done, round)
		}
	})
}
