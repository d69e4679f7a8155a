package verbsrail

import (
	"fmt"
	"math"
	"syscall"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

// Post implements [rail.Rail].
func (r *Rail) Post(peer rail.PeerID, writes []rail.Write) (int, error) {
	c := r.peers[peer]
	if c == nil || c.state != connUp {
		return 0, fmt.Errorf("%s: post to peer %d, which is not up: %w", r.name, peer, syscall.ENOTCONN)
	}
	wrs, sges, refused := r.prepare(c, writes)
	if len(wrs) == 0 {
		return 0, refused
	}
	n, err := c.writes.PostSend(wrs, sges)
	for i := range writes[:n] {
		c.tokens[c.tail%uint32(len(c.tokens))] = writes[i].Token
		c.tail++
		if writes[i].HasImm {
			c.used++
			c.lastSpoke = r.now
		}
	}
	if err != nil {
		// The queue has room by our account and the requests were checked: the device has failed us. Those that it took
		// may have no completion coming but that of the error state.
		err = fmt.Errorf("%s: post to %v: %w", r.name, c.peer, err)
		r.touch(r.now)
		r.fail(c, err, byeFailed)
		return n, err
	}
	return n, refused
}

// prepare makes work requests of as many of the writes as there is room and credit for. The error concerns the next one.
func (r *Rail) prepare(c *conn, writes []rail.Write) (wrs []verbs.SendWR, sges []verbs.SGE, err error) {
	room := len(c.tokens) - int(c.tail-c.head)
	credit := c.granted - c.used
	wrs, sges = r.wrs[:0], r.sges[:0]
	for i := range writes[:min(len(writes), room)] {
		w := &writes[i]
		if err = r.check(w); err != nil {
			break
		}
		wr := verbs.SendWR{
			ID: c.tag.with(workWrite, uint16(c.tail)+uint16(i)), Opcode: verbs.OpWrite, RemoteAddr: w.RemoteAddr,
			RKey: uint32(w.RemoteKey),
		}
		if w.HasImm {
			if credit == 0 {
				break
			}
			credit--
			wr.Opcode, wr.Imm = verbs.OpWriteImm, w.Imm
		}
		if w.Length > 0 {
			wr.NumSGE = 1
			sges = append(sges, verbs.SGE{Addr: w.LocalAddr, Length: uint32(w.Length), LKey: uint32(w.LocalKey)})
		}
		// A queue frees its places at the next completion, so one must never be far.
		if c.unsignaled++; c.unsignaled >= len(c.tokens)/4 {
			wr.Flags = verbs.SendSignaled
			c.unsignaled = 0
		}
		wrs = append(wrs, wr)
	}
	if n := len(wrs); n > 0 {
		wrs[n-1].Flags = verbs.SendSignaled // completes those before it too
		c.unsignaled = 0
	}
	return wrs, sges, err
}

// check refuses what the NIC could not be asked for.
func (r *Rail) check(w *rail.Write) error {
	switch {
	case w.Length > r.caps.MaxMessage:
		return fmt.Errorf("%s: write of %d bytes: at most %d are possible: %w", r.name, w.Length, r.caps.MaxMessage,
			syscall.EMSGSIZE)
	case w.LocalKey > math.MaxUint32 || w.RemoteKey > math.MaxUint32:
		return fmt.Errorf("%s: write with local key %#x and remote key %#x: verbs keys have 32 bits: %w", r.name, w.LocalKey,
			w.RemoteKey, syscall.EINVAL)
	}
	return nil
}

// token is that of the write at a position.
func (c *conn) token(position uint32) uint64 { return c.tokens[position%uint32(len(c.tokens))] }
