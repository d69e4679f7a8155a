package outbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/internal/outbox"
	"github.com/weftrdma/weft/transferengine/rail"
)

func TestEventsThatDoNotFitComeNextInOrder(t *testing.T) {
	var o outbox.Outbox
	var all []uint64
	turn := func(room int, emit ...uint64) {
		events := make([]rail.Event, room)
		o.Begin(events)
		for _, token := range emit {
			o.Emit(rail.Event{Kind: rail.Completed, Token: token})
		}
		n := o.End()
		require.LessOrEqual(t, n, room)
		for _, e := range events[:n] {
			all = append(all, e.Token)
		}
	}
	o.Emit(rail.Event{Kind: rail.Completed, Token: 1}) // between two turns
	require.True(t, o.Holding())
	turn(2, 2, 3, 4, 5)
	turn(0, 6)
	turn(3)
	require.True(t, o.Holding())
	turn(3, 7)
	require.Equal(t, []uint64{1, 2, 3, 4, 5, 6, 7}, all)
	require.False(t, o.Holding())
}

func TestFull(t *testing.T) {
	var o outbox.Outbox
	o.Begin(make([]rail.Event, 1))
	require.False(t, o.Full())
	o.Emit(rail.Event{})
	require.True(t, o.Full())
	o.Begin(nil)
	require.True(t, o.Full())
}
