package transferengine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
)

func TestWritesAndCountsAllocateNothing(t *testing.T) {
	p := toSink(t, false)
	var transfers [10]transferengine.Transfer
	pages := []uint32{3, 1, 4, 1, 5, 9, 2, 6}
	w := p.all(7)
	w.Shards = 3
	paged := transferengine.PagedWrite{Peer: p.toB, Source: p.source, SourceStride: 4096, SourcePages: pages,
		Dest: &p.descriptor, DestStride: 4096, DestPages: pages, PageLength: 4096, Imm: 8, HasImm: true, Shards: 2}
	scatter := transferengine.Scatter{Source: p.source, Imm: 8, HasImm: true}
	for range 5 {
		scatter.Targets = append(scatter.Targets, transferengine.ScatterTarget{Peer: p.toB, Dest: &p.descriptor, Length: 8})
	}
	read := transferengine.Read{Peer: p.toB, Source: &p.descriptor, Dest: p.source, Length: 64}
	c, d := p.a.Counter(7), p.a.Counter(8)
	from := []*transferengine.Peer{p.toB}
	ctx := soon(t)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for i := range transfers {
			switch i % 5 {
			case 0:
				_ = p.a.Read(&transfers[i], read)
			case 1:
				_ = p.a.Scatter(&transfers[i], scatter)
			case 2, 3:
				_ = p.a.Write(&transfers[i], w)
			case 4:
				_ = p.a.WritePages(&transfers[i], paged)
			}
		}
		p.settle1(p.a)
		for i := range transfers {
			if transfers[i].Wait(ctx) != nil {
				t.Fatal("a transfer failed")
			}
		}
		if c.WaitFrom(ctx, 12, from...) != nil || d.Wait(ctx, 2*2+2*5) != nil {
			t.Fatal("immediates are missing")
		}
	}))
}

func TestWaitingAllocatesNothing(t *testing.T) {
	p := toSink(t, true)
	var tr transferengine.Transfer
	w := p.all(7)
	c := p.a.Counter(7)
	from := []*transferengine.Peer{p.toB}
	ctx := rdmatest.Context(t, 20*time.Second)
	allocs := testing.AllocsPerRun(1000, func() {
		_ = p.a.Write(&tr, w)
		if c.WaitFrom(ctx, 1, from...) != nil || tr.Wait(ctx) != nil {
			t.Fatal("the write did not arrive")
		}
	})
	require.Zero(t, allocs)
}

// BenchmarkWrite is what a write of 8 bytes costs from the request to its completion, in batches of 64, without a NIC.
func BenchmarkWrite(b *testing.B) {
	p := toSink(b, false)
	w := p.all(7)
	w.Length, w.HasImm = 8, false
	benchmarkWrites(b, p, w)
}

// BenchmarkWriteWithImmediate adds the arrival and the counting of an immediate.
func BenchmarkWriteWithImmediate(b *testing.B) {
	p := toSink(b, false)
	w := p.all(7)
	w.Length = 8
	benchmarkWrites(b, p, w)
}

func benchmarkWrites(b *testing.B, p *pair, w transferengine.Write) {
	transfers := make([]transferengine.Transfer, 64)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		i := n % len(transfers)
		if i == 0 {
			p.settle1(p.a)
		}
		w.More = i < len(transfers)-1
		if err := p.a.Write(&transfers[i], w); err != nil {
			b.Fatal(err)
		}
	}
	p.settle1(p.a)
}

// BenchmarkWriteAndWait is one write at a time, driven by its own wait.
func BenchmarkWriteAndWait(b *testing.B) {
	p := toSink(b, true)
	w := p.all(7)
	w.Length = 8
	ctx := rdmatest.Context(b, time.Hour)
	var tr transferengine.Transfer
	b.ReportAllocs()
	for b.Loop() {
		if err := p.a.Write(&tr, w); err != nil {
			b.Fatal(err)
		}
		if err := tr.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
