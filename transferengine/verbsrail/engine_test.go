package verbsrail_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)

// open opens a whole engine on the device, with size bytes that peers may write.
func open(t testing.TB, progress transferengine.Progress, size int) (*transferengine.Engine, *transferengine.Region) {
	t.Helper()
	e, err := transferengine.Open(transferengine.Config{
		Rails: []rail.Opener{verbsrail.Config{Device: rdmatest.Device(t)}}, Progress: progress,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	region, err := e.Register(make([]byte, size), transferengine.RemoteWrite|transferengine.RemoteRead)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, region.Close()) })
	return e, region
}

func TestEngines(t *testing.T) {
	rdmatest.Require(t, rdmatest.Verbs)
	for name, progress := range map[string]transferengine.Progress{
		"inline": transferengine.Inline, "dedicated": transferengine.Dedicated,
	} {
		t.Run(name, func(t *testing.T) {
			const size = 1 << 20
			ctx := rdmatest.Context(t, patience)
			a, source := open(t, progress, size)
			b, target := open(t, progress, size)
			for i := range source.Bytes() {
				source.Bytes()[i] = byte(rand.Uint32())
			}
			peer, err := a.Connect(ctx, b.Address())
			require.NoError(t, err)
			dest := target.Descriptor()

			var whole, pages transferengine.Transfer
			require.NoError(t, a.Write(&whole, transferengine.Write{
				Peer: peer, Source: source, Dest: &dest, Length: size / 2, Imm: 1, HasImm: true, Shards: 3,
			}))
			require.NoError(t, a.WritePages(&pages, transferengine.PagedWrite{
				Peer: peer, Source: source, SourceStride: 4096, SourcePages: []uint32{128, 130, 129}, Dest: &dest,
				DestStride: 4096, DestPages: []uint32{200, 201, 255}, PageLength: 4096, Imm: 2, HasImm: true, Shards: 5,
			}))
			require.NoError(t, b.Counter(1).Wait(ctx, 3))
			require.Equal(t, source.Bytes()[:size/2], target.Bytes()[:size/2])
			require.NoError(t, b.Counter(2).Wait(ctx, 5))
			for from, to := range map[int]int{128: 200, 130: 201, 129: 255} {
				require.True(t, bytes.Equal(source.Bytes()[from*4096:][:4096], target.Bytes()[to*4096:][:4096]), "page %d", to)
			}
			require.NoError(t, whole.Wait(ctx))
			require.NoError(t, pages.Wait(ctx))

			require.NoError(t, a.Read(&whole, transferengine.Read{Peer: peer, Source: &dest, SourceOffset: 200 * 4096,
				Dest: source, Length: 2 * 4096}))
			require.NoError(t, whole.Wait(ctx))
			require.Equal(t, target.Bytes()[200*4096:202*4096], source.Bytes()[:2*4096])
			c, second := open(t, progress, size)
			another, err := a.Connect(ctx, c.Address())
			require.NoError(t, err)
			there := second.Descriptor()
			require.NoError(t, a.Scatter(&whole, transferengine.Scatter{Source: source, Imm: 3, HasImm: true,
				Targets: []transferengine.ScatterTarget{{Peer: peer, Dest: &dest, Length: 1000},
					{Peer: another, SourceOffset: 1000, Dest: &there, Length: 1000}}}))
			require.NoError(t, b.Counter(3).Wait(ctx, 1))
			require.NoError(t, c.Counter(3).Wait(ctx, 1))
			require.Equal(t, source.Bytes()[:1000], target.Bytes()[:1000])
			require.Equal(t, source.Bytes()[1000:2000], second.Bytes()[:1000])
			require.NoError(t, whole.Wait(ctx))
		})
	}
}

// A target that calls nothing still takes immediates, more than it granted at first, in both progress modes; and who
// waits for a peer that leaves is told.
func TestTargetThatComputes(t *testing.T) {
	rdmatest.Require(t, rdmatest.Verbs)
	for name, progress := range map[string]transferengine.Progress{
		"inline": transferengine.Inline, "dedicated": transferengine.Dedicated,
	} {
		t.Run(name, func(t *testing.T) {
			const immediates = 2000
			ctx := rdmatest.Context(t, patience)
			a, _ := open(t, progress, 64)
			b, target := open(t, progress, 64)
			peer, err := a.Connect(ctx, b.Address())
			require.NoError(t, err)
			dest := target.Descriptor()
			var transfer transferengine.Transfer
			require.NoError(t, a.Write(&transfer, transferengine.Write{
				Peer: peer, Dest: &dest, Imm: 9, HasImm: true, Shards: immediates,
			}))
			require.NoError(t, transfer.Wait(ctx))
			from := b.Peers()
			require.Len(t, from, 1)
			require.NoError(t, b.Counter(9).WaitFrom(ctx, immediates, from...))

			told := make(chan error)
			go func() { told <- b.Counter(9).WaitFrom(ctx, 1, from...) }()
			require.NoError(t, a.Shutdown(ctx))
			err = <-told
			require.ErrorIs(t, err, rail.ErrPeerClosed)
			require.ErrorContains(t, err, from[0].String())
		})
	}
}

// The README's example: one process writes, and the other waits for the immediate.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var payload []byte                       // what to send
	var address transferengine.Address       // of the other engine: its Address()
	var descriptor transferengine.Descriptor // of the other side's memory: its region's Descriptor()
	engine, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{verbsrail.Config{Device: "rxe0"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	source, err := engine.Register(payload, transferengine.LocalOnly)
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()
	peer, err := engine.Connect(ctx, address)
	if err != nil {
		log.Fatal(err)
	}
	var t transferengine.Transfer
	err = engine.Write(&t, transferengine.Write{
		Peer: peer, Source: source, Dest: &descriptor,
		Length: uint64(len(payload)), Imm: 7, HasImm: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Wait(ctx)) // the other side: engine.Counter(7).WaitFrom(ctx, 1, peer)
}
