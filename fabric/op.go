package fabric

import (
	"fmt"
	"syscall"
	"time"
)

// Seg is one piece of registered memory.
type Seg struct {
	Addr   uint64
	Length uint64
	LKey   uint32 // [MR.LKey]; 0, for memory outside the Go heap, with FlagInject (of Go memory: [Endpoint.Inject])
	_      uint32
}

// Op is a send, receive, write or read, as the method says that it is posted by. It has no pointers, so that a slice of them
// crosses into C as it is.
type Op struct {
	ID         uint64 // comes back in the completion
	Flags      Flags
	Peer       Addr   // of an endpoint with an AV
	Data       uint64 // with FlagRemoteCQData; its low [Info].CQDataSize bytes
	Tag        uint64 // of tagged messages
	Ignore     uint64 // bits of Tag that a tagged receive does not look at
	RemoteAddr uint64 // of writes and reads: the peer's [MR.Addr] and an offset
	RemoteKey  uint64 // and its [MR.RKey]
	NumSeg     uint32 // how many segments it takes of the list it is posted with
	_          uint32
}

// OpKind is what operations are.
type OpKind uint32

// The kinds of operations, of enum weft_fi_kind: those of [Endpoint.Send], [Endpoint.Recv] and so on.
const (
	OpSend OpKind = iota
	OpRecv
	OpTaggedSend
	OpTaggedRecv
	OpWrite
	OpRead
)

// String names the function of libfabric.
func (k OpKind) String() string {
	if k > OpRead {
		return fmt.Sprint(uint32(k))
	}
	return [...]string{"fi_sendmsg", "fi_recvmsg", "fi_tsendmsg", "fi_trecvmsg", "fi_writemsg", "fi_readmsg"}[k]
}

// Reasons of enum weft_fi_bad_op.
const (
	badKind = iota + 1
	badFlags
	badNumSeg
	badSegList
	badLKey
	badBounds
	badLength
	badInject
	badPeer
	badAtomic
	badPatch
	badBusy
	badQueue
)

// post posts operations of one kind in one crossing.
func (ep *Endpoint) post(k OpKind, ops []Op, segs []Seg) (accepted int, err error) {
	ep.use()
	if err := ep.life.Enter(); err != nil {
		return 0, err
	}
	accepted, result := cPost(ep.ptr, k, ops, segs)
	ep.life.Exit()
	if result != 0 {
		return ep.refused(k.String(), result, accepted, len(ops), len(segs))
	}
	return accepted, nil
}

// Inject posts a send, a tagged send or a write, as [Endpoint.Send] and its like do, whose bytes are those of data: of any Go memory,
// which need not be registered and is free again when Inject returns. FlagInject is implied, and NumSeg is not looked at. No
// completion comes without FlagCompletion. At most [ContextAttr].InjectSize bytes can be taken so.
//
// Implements:
//
//	ssize_t fi_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
//	ssize_t fi_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr)
//	ssize_t fi_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t tag)
//	ssize_t fi_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr, uint64_t tag)
//	ssize_t fi_inject_write(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t addr, uint64_t key)
//	ssize_t fi_inject_writedata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
//		uint64_t addr, uint64_t key)
func (ep *Endpoint) Inject(kind OpKind, op Op, data []byte) error {
	ep.use()
	if kind != OpSend && kind != OpTaggedSend && kind != OpWrite {
		return invalid("inject %v: it can be a send, a tagged send or a write", kind)
	}
	if err := ep.life.Enter(); err != nil {
		return err
	}
	result := cInject(ep.ptr, kind, &op, data)
	ep.life.Exit()
	if result == 0 {
		return nil
	}
	_, err := ep.refused(kind.String(), result, 0, 1, 1)
	return err
}

// PostPoll posts operations as [Endpoint.Send] and its like do, and then polls the endpoint's queue for them, TxCQ or RxCQ, as
// [CQ.PollSpin] does, all in one crossing: for whoever waits for what it posts. It polls in any case but one: where an operation
// is refused and nothing was posted. While not all are accepted it does not spin.
//
// It returns how many operations were accepted, how many completions there were, and the error of the post or else of the poll.
func (ep *Endpoint) PostPoll(kind OpKind, ops []Op, segs []Seg, completions []Completion, spin time.Duration) (accepted,
	completed int, err error) {
	ep.use()
	if kind > OpRead {
		return 0, 0, invalid("post operations: kind %v is not one of the OpKind constants", kind)
	}
	if err := ep.life.Enter(); err != nil { // its queues are open as long as it is
		return 0, 0, err
	}
	var done postPolled
	cPostPoll(ep.ptr, kind, ops, segs, completions, uint32(min(max(spin, 0), MaxSpin)), &done)
	ep.life.Exit()
	if done.result == 0 && done.completed >= 0 {
		return int(done.accepted), int(done.completed), nil
	}
	if done.result != 0 {
		accepted, err = ep.refused(kind.String(), int(done.result), int(done.accepted), len(ops), len(segs))
	} else {
		accepted, err = int(done.accepted), failed("fi_cq_read", int(-done.completed))
	}
	return accepted, int(max(done.completed, 0)), err
}

// postPolled is struct weft_fi_post_polled.
type postPolled struct {
	result    int32
	accepted  uint32
	completed int32
	_         uint32
}

// refused is the outcome of a post that did not take all. What the shim refused was not posted at all; accepted is then the
// index of the bad operation.
func (ep *Endpoint) refused(op string, result, accepted, n, segs int) (int, error) {
	err := ep.postError(op, result, accepted, n, segs)
	if result < 0 {
		accepted = 0
	}
	return accepted, err
}

// postError turns a shim's result for a batch into an error.
func (ep *Endpoint) postError(op string, result, accepted, n, segs int) error {
	if result == int(syscall.EAGAIN) {
		return &fullError{ep.name}
	}
	if result > 0 {
		return fmt.Errorf("%s: operation %d of %d: %w", ep.name, accepted, n, &Error{Op: op, Err: reason(result)})
	}
	return invalid("%s: %s: operation %d of %d: %s; nothing was posted", op, ep.name, accepted, n, ep.badReason(-result, segs))
}

// fullError is back-pressure, which is an ordinary outcome of a post: its text is made when somebody asks for it.
type fullError struct{ endpoint string }

func (e *fullError) Error() string { return e.endpoint + ": " + ErrQueueFull.Error() }

// Unwrap returns ErrQueueFull and EAGAIN.
func (e *fullError) Unwrap() []error { return []error{ErrQueueFull, syscall.EAGAIN} }

func (ep *Endpoint) badReason(bad, segs int) string {
	info := ep.told
	switch bad {
	case badKind:
		return fmt.Sprintf("the endpoint has no such operation, its capabilities are %v", info.Caps)
	case badFlags:
		return "it has flags that this operation does not take"
	case badNumSeg:
		return fmt.Sprintf("more segments than a send (%d) or receive (%d) may have, or than 1 with FlagInject", info.Tx.Segments,
			info.Rx.Segments)
	case badSegList:
		return fmt.Sprintf("the %d segments are not as many as the operations name", segs)
	case badLKey:
		return "a segment's LKey is not that of an open memory region of the domain"
	case badBounds:
		return "a segment is not within its memory region"
	case badLength:
		return fmt.Sprintf("longer than a message may be, %d bytes", info.MaxMsgSize)
	case badInject:
		return fmt.Sprintf("longer than FlagInject takes, %d bytes", info.Tx.InjectSize)
	case badPeer:
		return "the peer is not in the endpoint's address vector, or the group not joined"
	case badQueue:
		return "the endpoint has no completion queue to poll for it"
	case badAtomic:
		return "the provider has no such atomic, or not of so many values; see AtomicValid"
	}
	return fmt.Sprintf("reason %d", bad)
}
