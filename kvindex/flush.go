package kvindex

import (
	"context"
	"fmt"
)

// Flush merges every buffer into its leaf, so that reads search no buffer any more, and empty leaves into others. Writes
// that come meanwhile may leave new ones behind. It stops between two leaves when ctx ends.
func (x *Index[V]) Flush(ctx context.Context) error {
	idle := 0
	for lo := uint64(0); ; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("kvindex: flush stopped before key %d: %w", lo, err)
		}
		p := locate(x.tree(), lo, nil)
		if p.dirty() {
			x.patch(lo, p.leaf, nil)
			before := p
			p = locate(x.tree(), lo, nil)
			// It may have taken the leaf after it, which had writes or was empty; and an empty leaf that was alone in its
			// node has got neighbours, of which one takes its place the second time.
			idle++
			if p.last != before.last || p.upper > before.upper {
				idle = 0
			}
			if p.dirty() && idle < 2 {
				continue
			}
		}
		if p.last {
			return nil
		}
		lo, idle = p.upper, 0
	}
}

// dirty tells whether a leaf has writes to merge, or no keys and a neighbour that could take its place.
func (p position[V]) dirty() bool {
	b := p.leaf.buf.Load()
	return b != nil && b.load().taken() > 0 || len(p.leaf.keys) == 0 && !(p.first && p.last)
}
