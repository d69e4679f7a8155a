package kvindex

import (
	"fmt"
	"math/bits"
)

// The arena's layout. Offsets are in bytes from the start of the memory; all words are uint64 in the machine's order
// (the magic tells another order apart); blocks begin on a line of 64 bytes and take whole lines.
//
// Line 0, the superblock: magic; bytes of memory; offset of the root; last UID given; configuration (leaf ε, inner ε,
// leaf capacity, segments a node, buffer capacity, search: a byte each); three zeros.
//
// Every block: word 0 is the header: kind in bits 0-7, count in bits 8-15, lines in bits 16-31, generation in bits
// 32-63. Word 1 is the UID, which no two blocks of an arena ever share. The last word is the generation again: a reader
// that copies a block and finds the two different has read while it was written.
//
//	inner    words 2-7: first keys of segments 1-6, all ones where there is none. Then one line a segment: origin, slope,
//	         shape of the model, zero; offset of the segment; three zeros. Last line: check, six zeros, generation.
//	segment  words 2-7 zero. Pivots, to the end of a line; child offsets, to the end of a line. Last line as above. The
//	         check covers the pivots; child offsets change, one word at a time.
//	leaf     words 2-6: origin, slope, shape, zero; offset of the buffer, 0 for none, which changes once; word 7 zero.
//	         Keys, to the end of a line; values, to the end of a line; zeros for as many lines as make room for the keys that
//	         the buffer may take. Last line as above.
//	buffer   word 2: states, two bits a slot (free, put, delete), and from bit 32 the number of reserved slots. Words 3-7
//	         zero. 16 keys, 16 values, 16 checks of a slot. Last line as above, its check 0.
//
// The shape of a model is limit in bits 0-15, width in 16-31, ε in 32-47.
const (
	lineWords = 8
	lineBytes = 8 * lineWords

	arenaMagic   = uint64(0x31616b7674666577) // "weftvka1" in little-endian bytes
	superSize    = 1
	superRoot    = 2
	superUID     = 3
	superConfig  = 4
	wordUID      = 1
	leafBuffer   = 6
	bufferState  = 2
	bufferKeys   = lineWords
	bufferValues = bufferKeys + maxBuffer
	bufferChecks = bufferValues + maxBuffer
)

// maxRoom is how many keys the place of a leaf may be made for: as many as it holds, and those of its buffer.
const maxRoom = maxCapacity + maxBuffer

// Kinds of blocks. A block that is free has kind 0.
const (
	kindInner   = 1
	kindSegment = 2
	kindLeaf    = 3
	kindBuffer  = 4
)

// roundWords rounds up to whole lines.
func roundWords(n int) int { return (n + lineWords - 1) / lineWords * lineWords }

// blockWords is the size of a block of a kind with its first and last line.
func blockWords(kind, count int) int {
	switch kind {
	case kindInner:
		return (2 + count) * lineWords
	case kindBuffer:
		return 2*lineWords + 3*maxBuffer
	}
	return 2*lineWords + 2*roundWords(count) // pivots and children, or keys and values
}

// head is a block's first word.
type head uint64

func newHead(kind, count, words int, generation uint32) head {
	return head(kind) | head(count)<<8 | head(words/lineWords)<<16 | head(generation)<<32
}

func (h head) kind() int          { return int(h & 0xff) }
func (h head) count() int         { return int(h >> 8 & 0xff) }
func (h head) words() int         { return int(h>>16&0xffff) * lineWords }
func (h head) generation() uint64 { return uint64(h >> 32) }

// possible tells whether a block of an arena can begin like this.
func (h head) possible() bool {
	least, most := 0, maxCapacity
	switch h.kind() {
	case kindInner:
		least, most = 1, maxSegments
	case kindSegment:
		least = 1
	case kindLeaf:
		return h.count() <= maxRoom && h.words() >= blockWords(kindLeaf, h.count()) && h.words() <= blockWords(kindLeaf, maxRoom)
	case kindBuffer:
		most = 0
	default:
		return false
	}
	return h.count() >= least && h.count() <= most && h.words() == blockWords(h.kind(), h.count())
}

// fits tells whether every window of a model is within n keys.
func (m *model) fits(n int) bool {
	return int(m.limit)+int(m.width) == n && (m.width > 0 || n == 0)
}

// shape packs the small fields of a model.
func (m *model) shape() uint64 {
	return uint64(m.limit) | uint64(m.width)<<16 | uint64(m.eps)<<32
}

// modelOf unpacks a model.
func modelOf(origin, slope, shape uint64) model {
	return model{origin, slope, uint16(shape), uint16(shape >> 16), uint16(shape >> 32)}
}

// mix is a step of the checks: every input bit changes about half of the bits.
func mix(sum, word uint64) uint64 {
	hi, lo := bits.Mul64(sum^word^0x9e3779b97f4a7c15, 0xd1342543de82ef95)
	return bits.RotateLeft64(hi^lo, 27) + word
}

// slotCheck is the check of a buffer's slot.
func slotCheck(key, value, kind uint64) uint64 { return mix(mix(kind, key), value) }

// blockCheck is the check of a block: all that never changes while it lives. words is the whole block.
func blockCheck(words []uint64) uint64 {
	h := head(words[0])
	sum := mix(words[0], words[wordUID])
	body := words[2 : len(words)-lineWords]
	for i, w := range body {
		at := i + 2
		children := h.kind() == kindSegment && at >= lineWords+roundWords(h.count())
		if children || h.kind() == kindLeaf && at == leafBuffer {
			continue
		}
		sum = mix(sum, w)
	}
	return sum
}

// childSlot is the offset of a segment's child slot.
func childSlot(segment uint64, pivots, slot int) uint64 {
	return segment + uint64(lineWords+roundWords(pivots)+slot)*8
}

// packConfig and unpackConfig are the superblock's configuration.
func packConfig(c Config) uint64 {
	return uint64(c.LeafEpsilon) | uint64(c.InnerEpsilon)<<8 | uint64(c.LeafCapacity)<<16 | uint64(c.NodeSegments)<<24 |
		uint64(c.BufferCapacity)<<32 | uint64(c.Search)<<40
}

func unpackConfig(w uint64) (Config, error) {
	c := Config{LeafEpsilon: int(w & 0xff), InnerEpsilon: int(w >> 8 & 0xff), LeafCapacity: int(w >> 16 & 0xff),
		NodeSegments: int(w >> 24 & 0xff), BufferCapacity: int(w >> 32 & 0xff), Search: Search(w >> 40 & 0xff)}
	if w>>48 != 0 {
		return c, fmt.Errorf("kvindex: open arena: its configuration %#x has unknown parts: a newer version wrote it, or it is corrupt", w)
	}
	return c, c.validate()
}
