package fabricrail

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/rail"
)

// linkKey names a rail: its endpoint and its random key.
type linkKey struct {
	name string
	key  uint64
}

func (a address) link() linkKey { return linkKey{a.name, a.key} }

// link is a connection.
type link struct {
	remote
	key    linkKey
	called bool           // by this rail
	from   netip.AddrPort // of its other end, if that called
	loop   bool           // it is the end that was called, of a call of the rail to itself
	up     bool
	gone   error  // why it has ended; nil while it has not
	hello  []byte // to be said as soon as it is up
	since  time.Time
	conn   *conn // what is sent on it is of this one
	fence  fenceState
	queue  *queue
}

// make makes a link's endpoint, of the rail's own info or that of a request.
func (t *connected) make(info *fabric.Info, key linkKey) (l *link, err error) {
	l = &link{key: key, since: t.r.now}
	l.link = l
	cfg := fabric.CQConfig{Depth: t.r.cfg.perPeer(), Wait: fabric.WaitFD, Set: t.set}
	if l.cq, err = t.r.domain.OpenCQ(cfg); err != nil {
		return nil, err
	}
	l.ep, err = t.r.domain.OpenEndpoint(info, fabric.EndpointConfig{TxCQ: l.cq, RxCQ: l.cq, EQ: t.eq, SharedRx: t.srx})
	if err != nil {
		return nil, errors.Join(err, l.cq.Close())
	}
	l.queue = &queue{cq: l.cq, of: &l.remote}
	t.all[l.ep] = l
	t.count.Store(int64(len(t.all)))
	t.making++
	t.strays = true
	return l, nil
}

// end notes that a link has ended. It is closed at the end of the turn, since its queue may be in use.
func (t *connected) end(l *link, cause error) {
	if l.gone != nil {
		return
	}
	l.gone = fmt.Errorf("%w: its connection has ended", rail.ErrPeerGone)
	if cause != nil {
		l.gone = fmt.Errorf("%w: its connection has ended: %w", rail.ErrPeerGone, cause)
	}
	t.lost = append(t.lost, l)
}

// ended gives up the connection that a link served, and closes the link.
func (t *connected) ended(l *link) {
	if t.all[l.ep] != l {
		return // closed meanwhile
	}
	for _, c := range t.r.conns {
		if c == nil || c.remote != &l.remote {
			continue
		}
		if c.state == connConnecting {
			t.r.handshake.Broken(t.r.now, c.id, l.gone)
		} else {
			t.r.lost(c, l.gone)
		}
	}
	_ = t.shut(l)
}

// shut closes a link. What was posted on it comes back before, and what has come on it is taken.
func (t *connected) shut(l *link) error {
	if t.all[l.ep] != l {
		return nil
	}
	delete(t.all, l.ep)
	defer func() { t.count.Store(int64(len(t.all))) }()
	if t.links[l.key] == l {
		delete(t.links, l.key)
	}
	if !l.up {
		t.making--
	}
	if l.gone == nil {
		l.gone = fmt.Errorf("%w: its connection was closed", rail.ErrPeerGone)
	}
	l.up = false
	err := l.ep.Close()
	if err == nil {
		t.drain(l)
		err = l.cq.Close()
	}
	t.r.queues = slices.DeleteFunc(t.r.queues, func(q *queue) bool { return q == l.queue })
	if w, is := t.requests[l.key]; is && !l.loop && !t.closing {
		delete(t.requests, l.key)
		t.requested(w.event)
	}
	return err
}

// drain takes what the queue of a closed endpoint has, and flushes the operations that the provider said nothing of.
func (t *connected) drain(l *link) {
	r := t.r
	if r.from == l.queue {
		for r.at < r.end {
			r.at++
			r.completed(l.queue, &r.completions[r.at-1])
		}
	}
	var rest [64]fabric.Completion
	for {
		n, err := l.cq.Poll(rest[:])
		if n == 0 || err != nil {
			break
		}
		for i := range rest[:n] {
			r.completed(l.queue, &rest[i])
		}
	}
	r.mailbox.forget(&l.remote)
	for _, c := range r.conns {
		if c != nil && c.remote == &l.remote {
			r.flush(c)
		}
	}
}
