package verbs

import (
	"fmt"
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

// The opcodes of this binding. UD takes the sends alone.
const (
	OpWrite Opcode = iota
	OpWriteImm
	OpSend
	OpSendImm
)

func (o Opcode) String() string {
	return name(o, "write", "write with immediate", "send", "send with immediate")
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
	Opcode     Opcode
	Flags      SendFlags
	Imm        uint32 // host order
	NumSGE     uint32 // how many entries it takes of the list it is posted with
	RemoteAddr uint64 // writes
	AH         AHRef  // UD
	RKey       uint32 // writes
	RemoteQPN  uint32 // UD
	RemoteQKey uint32 // UD
	_          uint32
}

// RecvWR is a receive work request. Without entries it can take immediates of writes.
type RecvWR struct {
	ID     uint64
	NumSGE uint32 // how many entries it takes of the list it is posted with
	_      uint32
}

// qpLimits is struct weft_qp_limits.
type qpLimits struct {
	typ, maxSendWR, maxRecvWR, maxSendSGE, maxRecvSGE, maxInline, maxMessage, _ uint32
}

// Reasons of enum weft_bad_wr.
const (
	badOpcode = iota + 1
	badNumSGE
	badSGEList
	badInline
	badLength
	badAH
)

// postError turns a shim's result for a batch, of which the driver took the first accepted, into an error.
func (qp *QP) postError(op string, result int, accepted, n, sges int) error {
	if result > 0 {
		errno := syscall.Errno(result)
		err := error(&Error{Op: op, Err: errno})
		if errno == syscall.ENOMEM {
			err = fmt.Errorf("%w: %w", ErrQueueFull, err) // that is what drivers mean by it
		}
		return fmt.Errorf("QP %d: work request %d of %d: %w", qp.num, accepted, n, err)
	}
	var reason string
	sendLimit, recvLimit := qp.limits.maxSendSGE, qp.limits.maxRecvSGE
	switch -result {
	case badOpcode:
		reason = fmt.Sprintf("a %v queue pair has no such opcode", qp.Type())
	case badNumSGE:
		reason = fmt.Sprintf("more scatter/gather entries than a send (%d) or receive (%d) may have", sendLimit, recvLimit)
	case badSGEList:
		reason = fmt.Sprintf("the %d scatter/gather entries are not as many as the work requests name", sges)
	case badInline:
		reason = fmt.Sprintf("more inline data than %d bytes", qp.limits.maxInline)
	case badLength:
		reason = fmt.Sprintf("longer than a message may be, %d bytes", qp.limits.maxMessage)
	case badAH:
		reason = "a UD send needs an address handle"
	}
	return invalid("QP %d: work request %d of %d: %s; nothing was posted", qp.num, accepted, n, reason)
}
