package verbsrail

// workID is the ID of a work request. On a failed completion it is all there is to go by.
//
//	bits 60–63  kind
//	     36–59  generation: which of the connections that had the slot one after the other
//	     16–35  slot of the connection
//	      0–15  index: the low bits of the position of a send in its queue, or the buffer of a receive
type workID uint64

type workKind uint8

const (
	workWrite workKind = iota + 1
	workImmediate
	workMessageSend
	workMessageRecv
	workDatagramSend
	workDatagramRecv
)

const (
	maxSlots       = 1 << 20
	maxGenerations = 1 << 24
)

// tag is a workID of a connection without kind and index.
func tag(slot, generation uint32) workID {
	return workID(generation%maxGenerations)<<36 | workID(slot)<<16
}

func (id workID) with(kind workKind, index uint16) uint64 {
	return uint64(id) | uint64(kind)<<60 | uint64(index)
}

func (id workID) kind() workKind { return workKind(id >> 60) }
func (id workID) slot() uint32   { return uint32(id>>16) % maxSlots }
func (id workID) tag() workID    { return id &^ (0xf<<60 | 0xffff) }
func (id workID) index() uint16  { return uint16(id) }
