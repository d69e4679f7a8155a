package transferengine

import "github.com/weftrdma/weft/transferengine/rail"

// shardAlign keeps the cuts between shards at whole packets of the largest MTU in use.
const shardAlign = 4096

// plan says which operations a request to one peer is made of: writes, or reads, which have no immediates. A request is a
// list of pieces (the pages, or one for each shard that has bytes), shards are runs of consecutive pieces, and a piece larger
// than the rail's largest message is cut into chunks. It does not change; a [cursor] says how far it was posted.
//
// The immediate of a shard is on the shard's last chunk, its final. On a rail without order a final may overtake the
// shard's other chunks, so it is held back until all else of the request has completed; a final that is its shard's only
// chunk need not be.
type plan struct {
	local, localKey           uint64 // address of piece 0's stride origin
	remote, remoteKey         uint64
	empty                     uint64 // remote address for writes without bytes: some NICs check even those
	localStride, remoteStride uint64
	kind                      rail.OpKind
	localPages, remotePages   []uint32 // numbers of the pieces; nil: 0, 1, 2 …

	pieces, perShard        uint64
	pieceLength, lastLength uint64 // of all pieces but the last, and of the last
	shards                  uint64
	maxLength               uint64
	imm                     uint32
	hasImm, ordered         bool
}

// cursor is a position in a plan: the next chunk to post. Its zero value is the start.
type cursor struct {
	shard, piece, offset uint64
	finals               bool // only the finals that were held back are left
}

// cutBytes makes the plan one of contiguous bytes.
func (p *plan) cutBytes(length uint64) {
	if length == 0 {
		return
	}
	size := length
	if p.shards > 1 {
		size = (length + p.shards - 1) / p.shards
		size = min((size+shardAlign-1)/shardAlign*shardAlign, length)
	}
	p.pieces, p.perShard = (length+size-1)/size, 1
	p.pieceLength, p.lastLength = size, length-(p.pieces-1)*size
	p.localStride, p.remoteStride = size, size
}

// cutPages makes the plan one of pages.
func (p *plan) cutPages(local, remote []uint32, length uint64) {
	p.localPages, p.remotePages = local, remote
	p.pieces = uint64(len(local))
	p.perShard = (p.pieces + p.shards - 1) / p.shards
	p.pieceLength, p.lastLength = length, length
}

// single tells whether the plan is one operation with contiguous bytes.
func (p *plan) single() bool {
	return p.shards == 1 && p.pieces == 1 && p.localPages == nil && p.lastLength <= p.maxLength
}

// fill lays out the writes from the cursor on into batch, as many as fit, and returns how many and the cursor after them.
// Filling a shorter batch from the same cursor gives the cursor after that many.
func (p *plan) fill(c cursor, batch []rail.Op, token uint64) (n int, after cursor) {
	if p.single() && c == (cursor{}) && len(batch) > 0 { // what next would lay out, in less time
		batch[0] = rail.Op{Kind: p.kind, LocalAddr: p.local, LocalKey: p.localKey, RemoteAddr: p.remote, RemoteKey: p.remoteKey,
			Length: p.lastLength, Token: token}
		if p.hasImm {
			batch[0].Imm, batch[0].HasImm = p.imm, true
			batch[0].Token |= immToken
		}
		return 1, cursor{shard: 1, piece: 1}
	}
	for n < len(batch) && p.next(&c, &batch[n]) {
		if batch[n].Token = token; batch[n].HasImm {
			batch[n].Token |= immToken
		}
		n++
	}
	return n, c
}

// immediates is how many of the plan's immediates are before the cursor.
func (p *plan) immediates(c cursor) (n uint64) {
	if !p.hasImm || p.ordered {
		return c.shard
	}
	for shard := range p.shards {
		first := shard * p.perShard
		end := min(p.pieces, first+p.perShard)
		only := first >= end || end-first == 1 && p.length(first) <= p.maxLength
		if c.finals && only || (c.finals || only) && shard < c.shard { // the finals that are their shard's only chunk come first
			n++
		}
	}
	return n
}

// exhausted tells whether fill gives nothing: all is posted, or what is left is held back.
func (p *plan) exhausted(c cursor) bool { return c.shard == p.shards }

// held tells whether finals are left that may be posted now that all else has completed.
func (p *plan) held(c cursor) bool {
	several := p.pieces > 0 && (p.pieceLength > p.maxLength || min(p.perShard, p.pieces) > 1)
	return p.exhausted(c) && !c.finals && p.hasImm && !p.ordered && several
}

// next lays out the write at the cursor and moves the cursor past it. It returns false if the plan is exhausted.
func (p *plan) next(c *cursor, w *rail.Op) bool {
	for c.shard < p.shards {
		end := min(p.pieces, (c.shard+1)*p.perShard)
		if c.piece >= end { // a shard without bytes, and so are all that follow
			if !p.hasImm || c.finals {
				c.shard = p.shards
				return false
			}
			c.shard++
			*w = rail.Op{RemoteAddr: p.empty, RemoteKey: p.remoteKey, Imm: p.imm, HasImm: true}
			return true
		}
		if c.finals {
			c.piece = end - 1
			c.offset = (p.length(c.piece) - 1) / p.maxLength * p.maxLength
		}
		only := c.piece == c.shard*p.perShard && c.offset == 0
		final := p.chunk(c, w, end)
		switch {
		case !final || !p.hasImm:
			return true
		case p.ordered || only != c.finals:
			w.Imm, w.HasImm = p.imm, true
			return true
		}
	}
	return false
}

// chunk lays out the chunk at the cursor, moves the cursor past it, and tells whether it is the last of a shard whose
// pieces stop before end.
func (p *plan) chunk(c *cursor, w *rail.Op, end uint64) (final bool) {
	local, remote := c.piece, c.piece
	if p.localPages != nil {
		local, remote = uint64(p.localPages[c.piece]), uint64(p.remotePages[c.piece])
	}
	length := p.length(c.piece)
	size := min(length-c.offset, p.maxLength)
	*w = rail.Op{
		Kind: p.kind, LocalAddr: p.local + local*p.localStride + c.offset, LocalKey: p.localKey,
		RemoteAddr: p.remote + remote*p.remoteStride + c.offset, RemoteKey: p.remoteKey,
		Length: size,
	}
	if c.offset += size; c.offset < length {
		return false
	}
	c.piece, c.offset = c.piece+1, 0
	if c.piece < end {
		return false
	}
	c.shard++
	return true
}

// length is that of a piece in bytes.
func (p *plan) length(piece uint64) uint64 {
	if piece == p.pieces-1 {
		return p.lastLength
	}
	return p.pieceLength
}
