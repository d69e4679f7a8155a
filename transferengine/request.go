package transferengine

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"syscall"
)

// MaxShards is the most shards that a request can have.
const MaxShards = 1 << 16

// Write is a write of Length contiguous bytes from a region of this engine to the memory of a peer.
type Write struct {
	// Peer is the target.
	Peer *Peer
	// Source is where the bytes are, from SourceOffset on. It may be nil when Length is 0.
	Source       *Region
	SourceOffset uint64
	// Dest is where they go, from DestOffset on. It is needed even when Length is 0.
	Dest       *Descriptor
	DestOffset uint64
	// Length is in bytes.
	Length uint64
	// Imm arrives at the target's counter of that value exactly Shards times, if HasImm is set.
	Imm    uint32
	HasImm bool
	// Shards is into how many parts the bytes are cut, from 1 to [MaxShards]; zero is 1. Parts without bytes still send
	// their immediate.
	Shards int
}

// PagedWrite is a write of pages: for each i the PageLength bytes at SourceOffset + SourceStride·SourcePages[i] of the
// source go to DestOffset + DestStride·DestPages[i] of the destination.
type PagedWrite struct {
	// Peer is the target.
	Peer *Peer
	// Source is where the pages are. It may be nil when there are no bytes.
	Source                     *Region
	SourceOffset, SourceStride uint64
	SourcePages                []uint32
	// Dest is where they go; DestPages is as long as SourcePages. It is needed even when there are no bytes.
	Dest                   *Descriptor
	DestOffset, DestStride uint64
	DestPages              []uint32
	// PageLength is in bytes, the same for all pages.
	PageLength uint64
	// Imm arrives at the target's counter of that value exactly Shards times, if HasImm is set; not once a page.
	Imm    uint32
	HasImm bool
	// Shards is into how many parts of consecutive pages the list is cut, from 1 to [MaxShards]; zero is 1. Parts
	// without pages still send their immediate.
	Shards int
}

// Write starts a write, whose end t tells. It allocates nothing and does not block. Errors are of the request itself, and
// then nothing was sent and t is free: they wrap syscall.EINVAL or EFAULT (bounds), EACCES (rights), EBUSY (t is in
// flight), [ErrQueueFull], net.ErrClosed, or for a lost peer are a [*TransferError].
func (e *Engine) Write(t *Transfer, w Write) error {
	p, err := e.planWrite(&w)
	if err == nil {
		err = e.start(t, w.Peer, w.Source, &p)
	}
	if err != nil {
		return wrapRequest("write", w.Peer, err)
	}
	return nil
}

// WritePages starts a write of pages, whose end t tells. The page lists must not change until then. Otherwise it is as
// [Engine.Write].
func (e *Engine) WritePages(t *Transfer, w PagedWrite) error {
	p, err := e.planPages(&w)
	if err == nil {
		err = e.start(t, w.Peer, w.Source, &p)
	}
	if err != nil {
		return wrapRequest("write pages", w.Peer, err)
	}
	return nil
}

// wrapRequest names the operation and the peer, unless the error does.
func wrapRequest(op string, peer *Peer, err error) error {
	if named := new(*TransferError); errors.As(err, named) || peer == nil {
		return err
	}
	return fmt.Errorf("%s to %v: %w", op, peer, err)
}

// planWrite checks a write and lays it out.
func (e *Engine) planWrite(w *Write) (p plan, err error) {
	if err := e.checkTarget(w.Peer, w.Source, w.Dest, w.Length > 0); err != nil {
		return p, err
	}
	if err := checkRange("destination", w.DestOffset, w.Length, w.Dest.length); err != nil {
		return p, err
	}
	if w.Source != nil {
		if err := checkRange("source", w.SourceOffset, w.Length, w.Source.descriptor.length); err != nil {
			return p, err
		}
	}
	if err := e.layOut(&p, w.Source, w.Dest, w.Shards); err != nil {
		return p, err
	}
	p.imm, p.hasImm = w.Imm, w.HasImm
	p.local += w.SourceOffset
	p.remote += w.DestOffset
	p.cutBytes(w.Length)
	return p, nil
}

// planPages checks a write of pages and lays it out.
func (e *Engine) planPages(w *PagedWrite) (p plan, err error) {
	if len(w.SourcePages) != len(w.DestPages) {
		return p, fmt.Errorf("%d source pages and %d destination pages, not as many: %w",
			len(w.SourcePages), len(w.DestPages), syscall.EINVAL)
	}
	bytes := w.PageLength > 0 && len(w.SourcePages) > 0
	if err := e.checkTarget(w.Peer, w.Source, w.Dest, bytes); err != nil {
		return p, err
	}
	if bytes {
		err := checkPages("source", w.SourceOffset, w.SourceStride, w.SourcePages, w.PageLength, w.Source.descriptor.length)
		if err != nil {
			return p, err
		}
		err = checkPages("destination", w.DestOffset, w.DestStride, w.DestPages, w.PageLength, w.Dest.length)
		if err != nil {
			return p, err
		}
	}
	if err := e.layOut(&p, w.Source, w.Dest, w.Shards); err != nil {
		return p, err
	}
	p.imm, p.hasImm = w.Imm, w.HasImm
	if bytes {
		p.local += w.SourceOffset
		p.remote += w.DestOffset
		p.localStride, p.remoteStride = w.SourceStride, w.DestStride
		p.cutPages(w.SourcePages, w.DestPages, w.PageLength)
	}
	return p, nil
}

// checkTarget checks who and what a request names.
func (e *Engine) checkTarget(peer *Peer, source *Region, dest *Descriptor, bytes bool) error {
	switch {
	case !e.worker.owns(peer):
		return fmt.Errorf("the peer is not one of this engine: %w", syscall.EINVAL)
	case dest == nil || dest.rails == 0:
		return fmt.Errorf("the destination is empty: %w", syscall.EINVAL)
	case dest.owner != peer.incarnation:
		return fmt.Errorf("the destination is memory of engine %x, the peer is %x: %w",
			dest.owner[:4], peer.incarnation[:4], syscall.EINVAL)
	case dest.access&RemoteWrite == 0:
		return fmt.Errorf("the destination does not allow remote writes: %w", syscall.EACCES)
	case source == nil && bytes:
		return fmt.Errorf("there are bytes to write and no source: %w", syscall.EINVAL)
	case source != nil && source.engine != e:
		return fmt.Errorf("the source is not a region of this engine: %w", syscall.EINVAL)
	}
	return nil
}

// layOut fills in what all requests have.
func (e *Engine) layOut(p *plan, source *Region, dest *Descriptor, shards int) error {
	if shards < 0 || shards > MaxShards {
		return fmt.Errorf("%d shards, not 1 to %d: %w", shards, MaxShards, syscall.EINVAL)
	}
	p.shards = uint64(max(shards, 1))
	p.maxLength, p.ordered = e.worker.caps.MaxLength, e.worker.caps.Ordered
	p.empty, p.remote, p.remoteKey = dest.base, dest.base, dest.keys[0]
	if source != nil {
		p.local, p.localKey = source.descriptor.base, source.registration.LocalKey()
	}
	return nil
}

// checkRange checks that length bytes from the offset on lie within limit bytes.
func checkRange(what string, offset, length, limit uint64) error {
	if offset > limit || length > limit-offset {
		return fmt.Errorf("%s: %d bytes from %d on are beyond its %d: %w", what, length, offset, limit, syscall.EFAULT)
	}
	return nil
}

// checkPages checks that every page lies within limit bytes. Those of the largest number reach farthest.
func checkPages(what string, offset, stride uint64, pages []uint32, length, limit uint64) error {
	largest := slices.Max(pages)
	high, from := bits.Mul64(stride, uint64(largest))
	from, carry := bits.Add64(from, offset, 0)
	if high != 0 || carry != 0 {
		return fmt.Errorf("%s: page %d of stride %d from %d on is beyond its %d bytes: %w",
			what, largest, stride, offset, limit, syscall.EFAULT)
	}
	return checkRange(what, from, length, limit)
}
