package verbs

import (
	"fmt"
	"net"
	"syscall"
)

// SGE is one piece of registered memory (struct ibv_sge).
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// Opcode is what a send work request does (enum ibv_wr_opcode).
type Opcode uint32

// The opcodes of this binding. UD takes the sends without invalidation alone, UC all but reads and atomics, SRD these sends,
// writes and reads, each with an address handle. Memory windows
// are bound by [QP.BindMW].
const (
	OpWrite       Opcode = 0
	OpWriteImm    Opcode = 1
	OpSend        Opcode = 2
	OpSendImm     Opcode = 3
	OpRead        Opcode = 4
	OpCompareSwap Opcode = 5 // 8 bytes: Swap if the peer has CompareAdd; the entry receives what it had
	OpFetchAdd    Opcode = 6 // 8 bytes: adds CompareAdd; likewise
	OpLocalInv    Opcode = 7 // takes back the key RKey of a window of ours
	OpSendInv     Opcode = 9 // a send that takes back the key RKey of a window of the peer's
)

func (o Opcode) String() string {
	return name(o, "write", "write with immediate", "send", "send with immediate", "read", "compare and swap",
		"fetch and add", "local invalidate", "bind memory window", "send with invalidate")
}

// SendFlags modify a send work request (enum ibv_send_flags).
type SendFlags uint32

// What SendFlags has.
const (
	SendFence     SendFlags = 1 << iota // wait for earlier reads and atomics
	SendSignaled                        // produce a completion also on success
	SendSolicited                       // wake a peer that asked for solicited events
	SendInline                          // take the bytes during the post, from any memory
)

// SendWR is a send work request. It has no pointers, so that a slice of them crosses into C as it is.
type SendWR struct {
	ID         uint64
	NumSGE     uint32 // how many entries it takes of the list it is posted with
	Opcode     Opcode
	Flags      SendFlags
	Imm        uint32 // host order
	RemoteAddr uint64 // writes, reads, atomics; a multiple of 8 for these
	RKey       uint32 // writes, reads, atomics; the key to take back of an invalidation
	_          uint32
	AH         AHRef  // UD
	RemoteQPN  uint32 // UD
	RemoteQKey uint32 // UD
	CompareAdd uint64 // atomics: what to compare with, or to add
	Swap       uint64 // compare and swap
}

// RecvWR is a receive work request. Without entries it can take immediates of writes.
type RecvWR struct {
	ID     uint64
	NumSGE uint32 // how many entries it takes of the list it is posted with
	_      uint32
}

// qpLimits is struct weft_qp_limits.
type qpLimits struct {
	typ, maxSendWR, maxRecvWR, maxSendSGE, maxRecvSGE, maxInline, maxMessage, builders uint32
}

// Bits of enum weft_builders.
const (
	builders = 1 << iota
	buildersOfWindows
)

// Reasons of enum weft_bad_wr.
const (
	badOpcode = iota + 1
	badNumSGE
	badSGEList
	badInline
	badLength
	badAH
	badAtomic
	badUnsignaled
	badFailed
	badClosed
	badPatch
	badAHClosed
	badQueue
)

// post is struct weft_post.
type post struct {
	n, numSGE uint32
	result    int32
	accepted  uint32
}

// taken is how many work requests were posted. What the shim refused was not posted at all; accepted is then the index of
// the bad one.
func (p *post) taken() int {
	if p.result < 0 {
		return 0
	}
	return int(p.accepted)
}

// postError is why a post was not taken as a whole.
func (qp *QP) postError(op string, p *post) error {
	object := fmt.Sprintf("QP %d", qp.num)
	switch p.result {
	case -badClosed:
		return &closedError{object}
	case -badAHClosed:
		return fmt.Errorf("%s: work request %d of %d: %w; nothing was posted", object, p.accepted, p.n,
			&closedError{"its address handle"})
	}
	if p.result == -badFailed {
		cause := qp.cause()
		if cause == nil { // it was reset meanwhile
			cause = ErrFlushed
		}
		return fmt.Errorf("%s failed and takes no more posts: %w", object, cause)
	}
	limits := qp.limits
	limits.maxMessage = qp.longest.Load()
	return limits.postError(object, op, p)
}

// closedError is a post to a closed queue pair, or by a closed address handle: the uses of closed objects that are found in C.
type closedError struct{ object string }

func (e *closedError) Error() string { return e.object + " is closed" }

// Unwrap returns net.ErrClosed.
func (e *closedError) Unwrap() error { return net.ErrClosed }

func (l *qpLimits) postError(object, op string, p *post) error {
	if p.result > 0 {
		errno := syscall.Errno(p.result)
		err := error(&Error{Op: op, Err: errno})
		if errno == syscall.ENOMEM {
			err = fmt.Errorf("%w: %w", ErrQueueFull, err) // that is what drivers mean by it
		}
		return fmt.Errorf("%s: work request %d of %d: %w", object, p.accepted, p.n, err)
	}
	var reason string
	switch -p.result {
	case badOpcode:
		reason = fmt.Sprintf("a %v queue pair has no such opcode", QPType(l.typ))
	case badNumSGE:
		reason = fmt.Sprintf("more scatter/gather entries than a send (%d) or receive (%d) may have", l.maxSendSGE, l.maxRecvSGE)
	case badSGEList:
		reason = fmt.Sprintf("the %d scatter/gather entries are not as many as the work requests name", p.numSGE)
	case badInline:
		reason = fmt.Sprintf("more inline data than %d bytes, or inline with something that fetches", l.maxInline)
	case badLength:
		reason = fmt.Sprintf("longer than a message may be, %d bytes", l.maxMessage)
	case badAH:
		reason = "a UD send needs an address handle of its own device"
	case badAtomic:
		reason = "an atomic has one entry of 8 bytes, and a remote address that is a multiple of 8"
	case badQueue:
		reason = "the queue pair has no receive queue of its own: it was made with an SRQ or without MaxRecvWR"
	case badUnsignaled:
		if l.maxSendWR == 0 {
			reason = "the queue pair has no send queue: it was made without MaxSendWR"
			break
		}
		reason = fmt.Sprintf("the queue of %d would be full of requests without SendSignaled, and never empty again", l.maxSendWR)
	}
	return invalid("%s: work request %d of %d: %s; nothing was posted", object, p.accepted, p.n, reason)
}
