package verbsrail

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

// Post implements [rail.Rail].
func (r *Rail) Post(peer rail.PeerID, ops []rail.Op) (int, error) {
	c, err := r.connected("post", peer)
	if err != nil {
		return 0, err
	}
	wrs, sges, refused := r.prepare(c, ops)
	if len(wrs) == 0 {
		return 0, refused
	}
	n, err := c.writes.PostSend(wrs, sges)
	for i := range ops[:n] {
		*c.token(c.tail) = ops[i].Token
		c.tail++
		if ops[i].HasImm {
			c.used++
			c.signs.Spoke = r.now
		}
	}
	if err != nil {
		// The queue has room by our account and the requests were checked: the device has failed us. Those that it took
		// may have no completion coming but that of the error state.
		err = fmt.Errorf("post: %w", err)
		c.unsure = true
		r.touch(r.now)
		r.fail(c, err, byeFailed)
		return n, err
	}
	return n, refused
}

// connected returns the connection of a peer that is up.
func (r *Rail) connected(op string, peer rail.PeerID) (*conn, error) {
	// One that is up is its peer's current one.
	if c := r.recent; c != nil && c.id == peer && c.state == connUp {
		return c, nil
	}
	c := r.peers[peer]
	if c == nil || c.state != connUp {
		return nil, fmt.Errorf("%s to peer %d: %w", op, peer, rail.ErrNotUp)
	}
	r.recent = c
	return c, nil
}

// opcodes are those of the operations.
var opcodes = [...]verbs.Opcode{rail.Write: verbs.OpWrite, rail.Read: verbs.OpRead, rail.FetchAdd: verbs.OpFetchAdd,
	rail.CompareSwap: verbs.OpCompareSwap}

// prepare makes work requests of as many of the operations as there is room and credit for. The error concerns the next
// one.
func (r *Rail) prepare(c *conn, ops []rail.Op) (wrs []verbs.SendWR, sges []verbs.SGE, err error) {
	room := r.cfg.WriteDepth - int(c.tail-c.head)
	credit := c.granted - c.used
	wrs, sges = r.wrs[:0], r.sges[:0]
	for i := range ops[:min(len(ops), room)] {
		o := &ops[i]
		// Nearly all are such.
		if plain := o.Kind == rail.Write && o.Length <= r.caps.MaxLength && (o.LocalKey|o.RemoteKey)>>32 == 0; !plain {
			if err = r.check(o); err != nil {
				break
			}
		}
		if o.HasImm {
			if credit == 0 {
				break
			}
			credit--
		}
		wrs = append(wrs, verbs.SendWR{
			ID: c.tag.with(workWrite, uint16(c.tail)+uint16(i)), Opcode: opcodes[o.Kind], RemoteAddr: o.RemoteAddr,
			RKey: uint32(o.RemoteKey),
		})
		wr := &wrs[len(wrs)-1]
		switch {
		case o.Kind == rail.FetchAdd:
			wr.CompareAdd = o.Operand
		case o.Kind == rail.CompareSwap:
			wr.CompareAdd, wr.Swap = o.Compare, o.Operand
		case o.HasImm:
			wr.Opcode, wr.Imm = verbs.OpWriteImm, o.Imm
		}
		if o.Length > 0 {
			wr.NumSGE = 1
			sges = append(sges, verbs.SGE{Addr: o.LocalAddr, Length: uint32(o.Length), LKey: uint32(o.LocalKey)})
		}
		// A queue frees its places at the next completion, so one must never be far.
		if c.unsignaled++; c.unsignaled >= r.cfg.WriteDepth/4 {
			wr.Flags = verbs.SendSignaled
			c.unsignaled = 0
		}
	}
	if n := len(wrs); n > 0 {
		wrs[n-1].Flags = verbs.SendSignaled // completes those before it too
		c.unsignaled = 0
	}
	return wrs, sges, err
}

// check refuses what the NIC could not be asked for.
func (r *Rail) check(o *rail.Op) error {
	atomic := o.Kind == rail.FetchAdd || o.Kind == rail.CompareSwap
	switch {
	case o.Length > r.caps.MaxLength:
		return fmt.Errorf("operation of %d bytes: at most %d are possible: %w", o.Length, r.caps.MaxLength,
			syscall.EMSGSIZE)
	case o.LocalKey > math.MaxUint32 || o.RemoteKey > math.MaxUint32:
		return fmt.Errorf("local key %#x and remote key %#x: verbs keys have 32 bits: %w", o.LocalKey,
			o.RemoteKey, syscall.EINVAL)
	case int(o.Kind) >= len(opcodes), atomic && !r.caps.Atomics:
		return fmt.Errorf("operation of kind %d: %w", o.Kind, errors.ErrUnsupported)
	case atomic && (o.Length != 8 || o.RemoteAddr%8 != 0):
		return fmt.Errorf("atomic operation on %d bytes at %#x: it takes 8 bytes at a multiple of 8: %w", o.Length,
			o.RemoteAddr, syscall.EINVAL)
	case o.HasImm && o.Kind != rail.Write:
		return fmt.Errorf("an operation of kind %d with an immediate, which only writes have: %w", o.Kind, syscall.EINVAL)
	}
	return nil
}

// token is the place of the token of the operation at a position.
func (c *conn) token(position uint32) *uint64 { return &c.tokens[position&uint32(len(c.tokens)-1)] }
