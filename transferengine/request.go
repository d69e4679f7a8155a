package transferengine

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"syscall"
	"time"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine/rail"
)

// MaxShards is the most shards that a request can have.
const MaxShards = 1 << 16

// Write is a write of Length contiguous bytes from a region of this engine to the memory of a peer. It may be as long as the two
// regions; the engine cuts it where the NIC takes less at a time.
type Write struct {
	// Peer is the target.
	Peer *Peer
	// Source is where the bytes are, from SourceOffset on. It may be nil when Length is 0.
	Source       *Region
	SourceOffset uint64
	// Dest is where they go, from DestOffset on. It is needed even when Length is 0.
	Dest       *Descriptor
	DestOffset uint64
	// Length is in bytes; 0 sends the immediate alone.
	Length uint64
	// Imm arrives at the target's counter of that value exactly Shards times, if HasImm is set.
	Imm    uint32
	HasImm bool
	// Shards is into how many parts the bytes are cut, from 1 to [MaxShards]; zero is 1. Parts without bytes still send
	// their immediate.
	Shards int
	// Timeout is how long the request may take once the worker has it; zero is Config.TransferTimeout. Allow for the length:
	// a request that misses it while the NIC has some of it costs the peer.
	Timeout time.Duration
	// More says that another request follows at once: this one may wait for it, a millisecond at most, so that they are posted
	// together. The last one of several leaves it out. A Dedicated engine waits for nothing.
	More bool
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
	// Timeout is how long it may take from when the worker takes it; zero is Config.TransferTimeout.
	Timeout time.Duration
	// More is as in a [Write].
	More bool
}

// Read is a read of Length contiguous bytes from the memory of a peer to a region of this engine.
type Read struct {
	// Peer is whose memory is read.
	Peer *Peer
	// Source is where the bytes are, from SourceOffset on. It is needed even when Length is 0.
	Source       *Descriptor
	SourceOffset uint64
	// Dest is where they go, from DestOffset on. It may be nil when Length is 0.
	Dest       *Region
	DestOffset uint64
	// Length is in bytes.
	Length uint64
	// Timeout is how long it may take from when the worker takes it; zero is Config.TransferTimeout.
	Timeout time.Duration
	// More is as in a [Write].
	More bool
}

// Scatter is a write from one region to many peers, with the same immediate.
type Scatter struct {
	// Source is where the bytes are. It may be nil when there are none.
	Source *Region
	// Targets are the peers, at least one, and what goes to each. A peer may be there several times.
	Targets []ScatterTarget
	// Imm arrives at the counter of that value of every target exactly Shards times, if HasImm is set.
	Imm    uint32
	HasImm bool
	// Shards is into how many parts the bytes of each target are cut, from 1 to [MaxShards]; zero is 1. Parts without bytes
	// still send their immediate.
	Shards int
	// Timeout is how long each target may take from when the worker takes it; zero is Config.TransferTimeout.
	Timeout time.Duration
	// More is as in a [Write].
	More bool
}

// ScatterTarget is what goes to one peer of a Scatter: Length bytes from SourceOffset of the source to DestOffset of Dest,
// which is needed even when Length is 0.
type ScatterTarget struct {
	Peer         *Peer
	SourceOffset uint64
	Dest         *Descriptor
	DestOffset   uint64
	Length       uint64
}

// Write queues a write; t reports when it has ended. It does not block and allocates nothing. An error concerns the request
// itself: nothing was sent, and t is free. It wraps syscall.EINVAL, EFAULT (bounds), EACCES (rights), EBUSY (t is in flight),
// [ErrQueueFull] or net.ErrClosed; for a lost peer it is a [*TransferError].
func (e *Engine) Write(t *Transfer, w Write) error {
	err := e.claim(t, opWrite, w.Timeout, w.Source)
	if err == nil {
		err = e.start(t, w.Peer, w.More, e.planWrite(&t.plan, &w))
	}
	if err != nil {
		return wrapRequest(opWrite, w.Peer, err)
	}
	return nil
}

// WritePages queues a write of pages; t reports when it has ended. The lists of pages must not change until then. Otherwise it is
// like [Engine.Write].
func (e *Engine) WritePages(t *Transfer, w PagedWrite) error {
	err := e.claim(t, opPages, w.Timeout, w.Source)
	if err == nil {
		err = e.start(t, w.Peer, w.More, e.planPages(&t.plan, &w))
	}
	if err != nil {
		return wrapRequest(opPages, w.Peer, err)
	}
	return nil
}

// Read queues a read; t reports when it has ended. The bytes are in the region then, which must not be used before. Otherwise it
// is like [Engine.Write]. On a NIC that cannot read the error wraps errors.ErrUnsupported.
func (e *Engine) Read(t *Transfer, r Read) error {
	err := e.claim(t, opRead, r.Timeout, r.Dest)
	if err == nil {
		err = e.start(t, r.Peer, r.More, e.planRead(&t.plan, &r))
	}
	if err != nil {
		return wrapRequest(opRead, r.Peer, err)
	}
	return nil
}

// wrapRequest names the operation and the peer, unless the error does.
func wrapRequest(op string, peer *Peer, err error) error {
	if named := new(*TransferError); errors.As(err, named) {
		return err
	}
	if peer == nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	preposition := "to"
	if op == opRead {
		preposition = "from"
	}
	return fmt.Errorf("%s %s %v: %w", op, preposition, peer, err)
}

// planWrite checks a write and lays it out.
func (e *Engine) planWrite(p *plan, w *Write) error {
	err := e.planRange(p, rail.Write, w.Peer, w.Source, w.SourceOffset, w.Dest, w.DestOffset, w.Length, w.Shards)
	p.imm, p.hasImm = w.Imm, w.HasImm
	return err
}

// planRead checks a read and lays it out.
func (e *Engine) planRead(p *plan, r *Read) error {
	if !e.worker.caps.Read {
		return fmt.Errorf("%s cannot read: %w", e.worker.name, errors.ErrUnsupported)
	}
	return e.planRange(p, rail.Read, r.Peer, r.Dest, r.DestOffset, r.Source, r.SourceOffset, r.Length, 1)
}

// planRange checks a request for contiguous bytes and lays it out, but for the immediate.
func (e *Engine) planRange(p *plan, kind rail.OpKind, peer *Peer, local *Region, localOffset uint64, remote *Descriptor,
	remoteOffset, length uint64, shards int) error {
	if err := e.checkEnds(kind, peer, local, remote, length); err != nil {
		return err
	}
	localIs, remoteIs := roles(kind)
	if err := checkRange(remoteIs, remoteOffset, length, remote.length); err != nil {
		return err
	}
	if local != nil {
		if err := checkRange(localIs, localOffset, length, local.descriptor.length); err != nil {
			return err
		}
	}
	if err := e.layOut(p, kind, local, remote, shards); err != nil {
		return err
	}
	p.local += localOffset
	p.remote += remoteOffset
	p.cutBytes(length)
	return nil
}

// planPages checks a write of pages and lays it out.
func (e *Engine) planPages(p *plan, w *PagedWrite) error {
	if len(w.SourcePages) != len(w.DestPages) {
		return fmt.Errorf("SourcePages has %d entries and DestPages %d, they need as many: %w",
			len(w.SourcePages), len(w.DestPages), syscall.EINVAL)
	}
	length := w.PageLength * min(uint64(len(w.SourcePages)), 1) // of the first page; 0 if there are no bytes
	if err := e.checkEnds(rail.Write, w.Peer, w.Source, w.Dest, length); err != nil {
		return err
	}
	if length > 0 {
		err := checkPages("Source", w.SourceOffset, w.SourceStride, w.SourcePages, w.PageLength, w.Source.descriptor.length)
		if err != nil {
			return err
		}
		err = checkPages("Dest", w.DestOffset, w.DestStride, w.DestPages, w.PageLength, w.Dest.length)
		if err != nil {
			return err
		}
	}
	if err := e.layOut(p, rail.Write, w.Source, w.Dest, w.Shards); err != nil {
		return err
	}
	p.imm, p.hasImm = w.Imm, w.HasImm
	if length > 0 {
		p.local += w.SourceOffset
		p.remote += w.DestOffset
		p.localStride, p.remoteStride = w.SourceStride, w.DestStride
		p.cutPages(w.SourcePages, w.DestPages, w.PageLength)
	}
	return nil
}

// roles names the fields of a request that have its local and remote memory.
func roles(kind rail.OpKind) (local, remote string) {
	if kind == rail.Read {
		return "Dest", "Source"
	}
	return "Source", "Dest"
}

// checkEnds checks the peer and the memory that a request names.
func (e *Engine) checkEnds(kind rail.OpKind, peer *Peer, local *Region, remote *Descriptor, length uint64) error {
	localIs, remoteIs := roles(kind)
	need, right := RemoteWrite, "RemoteWrite"
	if kind == rail.Read {
		need, right = RemoteRead, "RemoteRead"
	}
	switch {
	case !e.worker.owns(peer):
		return fmt.Errorf("Peer is nil or another engine's: %w", syscall.EINVAL)
	case remote == nil || remote.rails == 0:
		return fmt.Errorf("%s is nil or empty, use the descriptor of a region of the peer: %w", remoteIs, syscall.EINVAL)
	case remote.owner != peer.incarnation:
		return fmt.Errorf("%s describes memory of engine %x, and Peer is engine %x: %w",
			remoteIs, remote.owner[:4], peer.incarnation[:4], syscall.EINVAL)
	case remote.access&need == 0:
		return fmt.Errorf("%s was registered without %s: %w", remoteIs, right, syscall.EACCES)
	case local == nil && length > 0:
		return fmt.Errorf("Length is %d and %s is nil: %w", length, localIs, syscall.EINVAL)
	case local != nil && local.engine != e:
		return fmt.Errorf("%s is a region of another engine: %w", localIs, syscall.EINVAL)
	}
	return nil
}

// layOut fills in what all requests have.
func (e *Engine) layOut(p *plan, kind rail.OpKind, local *Region, remote *Descriptor, shards int) error {
	if shards < 0 || shards > MaxShards {
		return fmt.Errorf("%d Shards, 0 to %d are possible: %w", shards, MaxShards, syscall.EINVAL)
	}
	*p = plan{kind: kind, shards: uint64(max(shards, 1))}
	p.maxLength, p.ordered = e.worker.caps.MaxLength, e.worker.caps.Ordered
	p.empty, p.remote, p.remoteKey = remote.base, remote.base, remote.keys[0]
	if local != nil {
		p.local, p.localKey = mem.Addr(local.mem), local.localKey
	}
	return nil
}

// checkRange checks that length bytes from the offset on lie within limit bytes.
func checkRange(what string, offset, length, limit uint64) error {
	if offset <= limit && length <= limit-offset {
		return nil
	}
	return rangeError(what, offset, length, limit)
}

// rangeError is apart so that checkRange can be inlined.
func rangeError(what string, offset, length, limit uint64) error {
	return fmt.Errorf("%d bytes at offset %d reach beyond the %d bytes of %s: %w", length, offset, limit, what, syscall.EFAULT)
}

// checkPages checks that every page lies within limit bytes. Those of the largest number reach farthest.
func checkPages(what string, offset, stride uint64, pages []uint32, length, limit uint64) error {
	if pageFits(offset, stride, slices.Max(pages), length, limit) {
		return nil
	}
	return pagesError(what, offset, stride, pages, length, limit)
}

// pageFits reports whether length bytes from the start of the page on lie within limit bytes.
func pageFits(offset, stride uint64, page uint32, length, limit uint64) bool {
	high, from := bits.Mul64(stride, uint64(page))
	from, carry := bits.Add64(from, offset, 0)
	return high == 0 && carry == 0 && from <= limit && length <= limit-from
}

// pagesError names the first page that does not fit, and counts them.
func pagesError(what string, offset, stride uint64, pages []uint32, length, limit uint64) error {
	first, bad := -1, 0
	for i, page := range pages {
		if !pageFits(offset, stride, page, length, limit) {
			if bad++; bad == 1 {
				first = i
			}
		}
	}
	return fmt.Errorf("%sPages[%d] is page %d: %d bytes at offset %d + %d × %d reach beyond the %d bytes of %s, as %d of all %d pages do: %w",
		what, first, pages[first], length, offset, pages[first], stride, limit, what, bad, len(pages), syscall.EFAULT)
}
