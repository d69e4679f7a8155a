//go:build linux && cgo && !noverbs

package verbsrail_test

import (
	"testing"

	"github.com/weftrdma/weft/transferengine"
)

func BenchmarkZZTurn(b *testing.B) {
	n := newOnNull(b, make([]byte, 4096))
	for b.Loop() {
		n.engine.Turn(n.now)
	}
}

func BenchmarkZZWrite(b *testing.B) {
	n := newOnNull(b, make([]byte, 4096))
	var tr [32]transferengine.Transfer
	w := n.write(8)
	w.HasImm = false
	i := 0
	for b.Loop() {
		if err := n.engine.Write(&tr[i%32], w); err != nil {
			b.Fatal(err)
		}
		i++
		n.engine.Turn(n.now)
	}
}
