package filetransfer

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// What is written into a slot is a sequence of records, so that many small files share one slot and one write, and a file
// need not say how long it is before it was read:
//
//	offset  size  field
//	0       1     kind
//	1       3     zero
//	4       4     length of the value, big-endian
//	8             value
//
// A record never crosses the end of its slot. The last one is followed by a record of kind 0, or by fewer bytes than a
// header has. Files follow one another: start, data and holes in the order of their offsets, and then whole or failed.
type recordKind byte

const (
	recordNone   recordKind = iota // nothing follows in this slot
	recordStart                    // number of the file (8), offset of the first byte that follows (8)
	recordData                     // bytes
	recordHole                     // how many zeros (8)
	recordWhole                    // SHA-256 of all bytes from offset 0 on, sealed
	recordFailed                   // why the rest does not follow, as text
)

const (
	recordHeader = 8
	startSize    = 16
	holeSize     = 8
)

// valueSize returns the least and the most bytes of a record's value.
func (k recordKind) valueSize() (least, most int) {
	switch k {
	case recordStart:
		return startSize, startSize
	case recordHole:
		return holeSize, holeSize
	case recordWhole:
		return sha256.Size, sha256.Size
	case recordFailed:
		return 0, wire.MaxText
	}
	return 1, acceptSlot
}

// slotWriter fills a slot with records.
type slotWriter struct {
	memory []byte
	used   int
}

// room is how long the value of the next record can be; less than 0 if not even its header fits.
func (w *slotWriter) room() int { return len(w.memory) - w.used - recordHeader }

// value is the place for the value of the next record.
func (w *slotWriter) value() []byte { return w.memory[w.used+recordHeader:] }

// add makes the first n bytes of value a record, and returns them. The caller has looked at room.
func (w *slotWriter) add(kind recordKind, n int) []byte {
	value := w.value()[:n:n]
	binary.BigEndian.PutUint64(w.memory[w.used:], uint64(kind)<<56|uint64(n))
	w.used += recordHeader + n
	return value
}

// finish ends the slot, and returns how many of its bytes have to be written.
func (w *slotWriter) finish() int {
	if w.room() >= 0 {
		w.add(recordNone, 0)
	}
	return w.used
}

// segment is a record that was read, or that is to be hashed.
type segment struct {
	kind   recordKind
	value  []byte // of the slot
	number uint64 // of a start, the file's; of a hole, how long it is
	offset uint64 // of a start
}

// readRecords appends the records of a slot. The other end can change the slot meanwhile: what is decided
// by is read once.
func readRecords(segments []segment, slot []byte) ([]segment, error) {
	for len(slot) >= recordHeader {
		header := binary.BigEndian.Uint64(slot)
		kind, size := recordKind(header>>56), int(header&0xffffffff)
		if kind == recordNone {
			break
		}
		least, most := kind.valueSize()
		if kind > recordFailed || header>>32&0xffffff != 0 || size < least || size > min(most, len(slot)-recordHeader) {
			return segments, fmt.Errorf("its window has a record of kind %d with %d bytes where %d are left", kind, size,
				len(slot)-recordHeader)
		}
		g := segment{kind: kind, value: slot[recordHeader : recordHeader+size : recordHeader+size]}
		switch kind {
		case recordStart:
			g.number, g.offset = binary.BigEndian.Uint64(g.value), binary.BigEndian.Uint64(g.value[8:])
		case recordHole:
			g.number = binary.BigEndian.Uint64(g.value)
		}
		segments = append(segments, g)
		slot = slot[recordHeader+size:]
	}
	return segments, nil
}

// zeros are what holes are hashed as.
var zeros [64 << 10]byte
