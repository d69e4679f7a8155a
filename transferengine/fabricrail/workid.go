package fabricrail

// workID is the ID of what is posted, which comes back in its completion. It is never 0, which is what a peer did.
//
//	bits 60–63  kind
//	     32–59  generation: which of those that had the place one after the other
//	      0–31  place: of an operation in the table of operations, of a message the buffer
type workID uint64

type workKind uint8

const (
	workOperation workKind = iota + 1
	workSend
	workRecv
)

const maxGenerations = 1 << 28

func newWorkID(kind workKind, generation, place uint32) uint64 {
	return uint64(kind)<<60 | uint64(generation%maxGenerations)<<32 | uint64(place)
}

func (id workID) kind() workKind     { return workKind(id >> 60) }
func (id workID) generation() uint32 { return uint32(id>>32) % maxGenerations }
func (id workID) place() uint32      { return uint32(id) }

// tag names our half of a connection: the peer puts it into every message, and into the upper half of the data that come
// with a write, where the provider carries 8 bytes of these. It is never 0.
//
//	bits 12–31  generation
//	      0–11  slot of the connection
type tag uint32

const (
	maxSlots          = 1 << 12
	maxTagGenerations = 1 << 20
)

func (t tag) slot() uint32 { return uint32(t) % maxSlots }
