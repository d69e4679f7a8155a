package fabricrail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/rail"
)

// maxPosted is how many operations one peer is sent in one turn: the first at once, and never so many that the completions
// of all the others have to wait for them.
const maxPosted = 32

// Post implements [rail.Rail].
func (r *Rail) Post(peer rail.PeerID, ops []rail.Op) (n int, err error) {
	c, err := r.connected("post", peer)
	if err != nil {
		return 0, err
	}
	for n < len(ops) && err == nil {
		var run, accepted int
		run, err = r.prepare(c, ops[n:])
		if run == 0 {
			break
		}
		accepted, postErr := r.postRun(c, ops[n:n+run])
		if n += accepted; accepted < run || postErr != nil {
			return n, postErr
		}
	}
	if n < len(ops) && err == nil && r.allowance(c) == 0 {
		r.starved = true
	}
	return n, err
}

// allowance is how many more operations the connection may be sent in this turn.
func (r *Rail) allowance(c *conn) int {
	if c.turn != r.turns {
		c.turn, c.sent = r.turns, 0
	}
	return maxPosted - c.sent
}

// connected returns the connection of a peer that is up.
func (r *Rail) connected(op string, peer rail.PeerID) (*conn, error) {
	c := r.peers[peer]
	if c == nil || c.state != connUp {
		return nil, fmt.Errorf("%s to peer %d: %w", op, peer, rail.ErrNotUp)
	}
	return c, nil
}

// prepare makes operations of the provider's of as many of ops, all of one kind, as there is room and credit for. The error
// concerns the next one.
func (r *Rail) prepare(c *conn, ops []rail.Op) (n int, err error) {
	r.ops, r.segs = r.ops[:0], r.segs[:0]
	credit := c.granted - c.used
	limit := min(len(ops), r.allowance(c), r.cfg.WriteDepth-c.flying)
	for i := range ops[:max(limit, 0)] {
		o := &ops[i]
		if err = r.check(o); err != nil || o.Kind != ops[0].Kind {
			break
		}
		if o.HasImm {
			if credit == 0 {
				break
			}
			credit--
		}
		if isAtomic(o.Kind) {
			return r.prepareAtomic(), nil // one at a time
		}
		r.ops = append(r.ops, r.operation(c, o))
		if o.Length > 0 {
			r.segs = append(r.segs, fabric.Seg{Addr: o.LocalAddr, Length: o.Length, LKey: uint32(o.LocalKey)})
		}
	}
	return len(r.ops), err
}

func isAtomic(kind rail.OpKind) bool { return kind == rail.FetchAdd || kind == rail.CompareSwap }

// operation is a write or read as the provider takes it, without its ID.
func (r *Rail) operation(c *conn, o *rail.Op) fabric.Op {
	op := fabric.Op{Peer: c.remote.addr, RemoteAddr: o.RemoteAddr, RemoteKey: o.RemoteKey}
	if o.HasImm {
		op.Flags, op.Data = fabric.FlagRemoteCQData, uint64(o.Imm)
		if r.traits.tagged {
			op.Data |= uint64(c.theirs) << 32
		}
	}
	if o.Length > 0 {
		op.NumSeg = 1
		// A write without bytes has nothing to deliver.
		if o.Kind == rail.Write && r.traits.delivered {
			op.Flags |= fabric.FlagDeliveryComplete
		}
	}
	return op
}

// check refuses what the provider could not be asked for.
func (r *Rail) check(o *rail.Op) error {
	switch {
	case o.Length > r.caps.MaxLength:
		return fmt.Errorf("operation of %d bytes: at most %d are possible: %w", o.Length, r.caps.MaxLength,
			syscall.EMSGSIZE)
	case o.LocalKey > math.MaxUint32:
		return fmt.Errorf("local key %#x is none of this rail's: %w", o.LocalKey, syscall.EINVAL)
	case o.Kind > rail.CompareSwap, isAtomic(o.Kind) && !r.caps.Atomics:
		return fmt.Errorf("operation of kind %d: %w", o.Kind, errors.ErrUnsupported)
	case isAtomic(o.Kind) && (o.Length != 8 || o.RemoteAddr%8 != 0):
		return fmt.Errorf("atomic operation on %d bytes at %#x: it takes 8 bytes at a multiple of 8: %w", o.Length,
			o.RemoteAddr, syscall.EINVAL)
	case o.HasImm && o.Kind != rail.Write:
		return fmt.Errorf("an operation of kind %d with an immediate, which only writes have: %w", o.Kind, syscall.EINVAL)
	}
	return nil
}

// postRun posts what was just prepared of ops.
func (r *Rail) postRun(c *conn, ops []rail.Op) (accepted int, err error) {
	if isAtomic(ops[0].Kind) {
		return r.postAtomic(c, &ops[0])
	}
	post := c.remote.ep.Write
	if ops[0].Kind == rail.Read {
		post = c.remote.ep.Read
	}
	for i := range ops {
		r.ops[i].ID = r.operations.id(r.operations.add(c, ops[i].Token))
	}
	accepted, err = post(r.ops, r.segs)
	if errors.Is(err, syscall.EINVAL) && accepted == 0 && len(ops) > 1 {
		accepted, err = r.postSingly(post) // the binding has refused all for one of them
	}
	r.posted(c, ops[:accepted])
	for i := accepted; i < len(ops); i++ {
		r.operations.remove(workID(r.ops[i].ID).place())
	}
	return accepted, r.postError(c, err)
}

// postSingly posts what was prepared up to the first that is refused.
func (r *Rail) postSingly(post func([]fabric.Op, []fabric.Seg) (int, error)) (accepted int, err error) {
	segs := r.segs
	for i := range r.ops {
		n := int(r.ops[i].NumSeg)
		one, its := r.ops[i:i+1], segs[:n]
		if _, err := post(one, its); err != nil {
			return i, err
		}
		segs = segs[n:]
	}
	return len(r.ops), nil
}

// posted takes account of operations that were accepted.
func (r *Rail) posted(c *conn, ops []rail.Op) {
	c.sent += len(ops)
	c.posted = c.posted || len(ops) > 0
	for i := range ops {
		if ops[i].HasImm {
			c.used++
			c.signs.Spoke = r.now
		}
	}
}

// postError says what an error of the provider's means to who posts: nothing for back-pressure, an error about the
// operation, or the end of the peer.
func (r *Rail) postError(c *conn, err error) error {
	switch {
	case err == nil, errors.Is(err, fabric.ErrQueueFull):
		return nil
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("post: %w", err)
	}
	err = fmt.Errorf("%w: post: %w", rail.ErrPeerGone, err)
	r.touched = true
	r.lost(c, err)
	return err
}

// prepareAtomic tells whether there is room for an atomic operation.
func (r *Rail) prepareAtomic() int {
	if len(r.operations.freeOperands) == 0 {
		return 0
	}
	return 1
}

// postAtomic posts an atomic operation.
func (r *Rail) postAtomic(c *conn, o *rail.Op) (accepted int, err error) {
	place := r.operations.add(c, o.Token)
	operand, seg := r.operations.operand(place)
	binary.NativeEndian.PutUint64(operand, o.Operand)
	binary.NativeEndian.PutUint64(operand[8:], o.Compare)
	op := fabric.AtomicOp{ID: r.operations.id(place), Peer: c.remote.addr, RemoteAddr: o.RemoteAddr,
		RemoteKey: o.RemoteKey, Datatype: fabric.Uint64, Operator: fabric.Sum, NumSeg: 1}
	result := fabric.Seg{Addr: o.LocalAddr, Length: 8, LKey: uint32(o.LocalKey)}
	first, second := seg, seg
	first.Length, second.Length, second.Addr = 8, 8, seg.Addr+8
	segs, post := []fabric.Seg{first, result}, c.remote.ep.FetchAtomic
	if o.Kind == rail.CompareSwap {
		op.Operator = fabric.CompareSwap
		segs, post = []fabric.Seg{first, second, result}, c.remote.ep.CompareAtomic
	}
	accepted, err = post([]fabric.AtomicOp{op}, segs)
	if accepted == 0 {
		r.operations.remove(place)
	} else {
		c.sent++
		c.posted = true
	}
	return accepted, r.postError(c, err)
}
