package simrail

import (
	"fmt"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
)

// link is one end of a connection.
type link struct {
	id      rail.PeerID
	rail    *Rail
	address string // of the peer
	state   linkState
	peer    *link // the other end, once it is known
	wanted  bool  // Connect was called: who called is told how it ends

	deadline time.Time // of a link that is calling
	silent   bool      // it leaves it to the peer to call
	interval time.Duration

	flights []*flight // some of them done
	flying  int
	posted  int
	credit  int // immediates that the peer lets us send
	owed    int // immediates of the peer that the engine took, and that were not granted again
	sends   int // messages that the peer's engine has not taken
	unsure  bool
	cause   error // from when it is lost
	told    bool  // the engine hears of its end
	over    bool  // nothing of the peer lands any more, and nothing is awaited but operations
	proof   bool  // the peer has destroyed its end
	lastDue time.Time
}

type linkState uint8

const (
	calling linkState = iota
	up
	leaving // lost; the peer's word that its end is destroyed is awaited, or operations
	dead
)

// newLink makes a link that is calling.
func (r *Rail) newLink(address string) *link {
	r.network.last++
	l := &link{id: rail.PeerID(r.network.last), rail: r, address: address, interval: helloInterval}
	r.links[l.id] = l
	return l
}

// linkTo returns the link to an address, if there is one that is not on its way out.
func (r *Rail) linkTo(address string) *link {
	for _, l := range r.links {
		if l.address == address && l.state != leaving {
			return l
		}
	}
	return nil
}

// call sends a hello, and another one later if there is still no answer.
func (l *link) call() {
	n := l.rail.network
	if l.state != calling {
		return
	}
	left := l.deadline.Sub(n.now)
	if left <= 0 {
		l.die(l.errGaveUp())
		return
	}
	if l.silent {
		n.push(&packet{kind: retry, to: l}, left)
		return
	}
	l.shake(&packet{kind: hello, from: l, address: l.address})
	n.push(&packet{kind: retry, to: l}, min(l.interval+n.draw(l.interval), left))
	l.interval *= 2
}

// shake sends a packet of the handshake, or several, or none.
func (l *link) shake(p *packet) {
	n := l.rail.network
	copies := 1
	if n.config.Script.Handshake != nil {
		copies = n.config.Script.Handshake(Handshake{From: l.rail.address, To: l.address, N: n.handshakes})
	}
	n.handshakes++
	for range copies {
		again := *p
		n.push(&again, n.draw(n.config.Delay))
	}
}

// welcome takes a hello to where it goes.
func (n *Network) welcome(p *packet) {
	r, from := n.rails[p.address], p.from
	if r == nil || from.state == dead || from.state == leaving {
		return
	}
	l := r.linkTo(from.rail.address)
	switch {
	case l == nil:
		l = r.newLink(from.rail.address)
		l.rise(from)
	case l.state == calling:
		l.rise(from)
	case l.peer == from: // the welcome was lost
	default: // who calls has no other link to here that is not on its way out
		if l.peer.state == leaving {
			l.left(l.peer) // its bye comes later
		} else {
			l.die(fmt.Errorf("%s: %w: it began another connection", l.address, rail.ErrPeerGone))
		}
		l = r.newLink(from.rail.address)
		l.rise(from)
	}
	l.shake(&packet{kind: welcome, from: l, to: from})
}

// rise takes a link up.
func (l *link) rise(peer *link) {
	l.peer, l.state, l.credit = peer, up, l.rail.network.config.Immediates
	l.emit(rail.Event{Kind: rail.PeerUp, Peer: l.id,
		Info: &rail.PeerInfo{Incarnation: peer.rail.incarnation, Address: []byte(l.address), Name: l.address}})
}

// hears takes in that something comes from an end, and tells whether it may land here. To a link that is calling it is an
// answer, which has overtaken the welcome.
func (l *link) hears(from *link) bool {
	if l.state == calling && from.state == up {
		l.rise(from)
	}
	return l.state == up && l.peer == from
}

// loses takes in that nothing comes from the peer any more. A link that is calling knows of none yet, and calls on.
func (l *link) loses(cause error) {
	if l.state != calling {
		l.die(cause)
	}
}

// other is the other end, also when it knows of this one and this one not of it.
func (l *link) other() *link {
	if l.peer != nil {
		return l.peer
	}
	if r := l.rail.network.rails[l.address]; r != nil {
		for _, o := range r.links {
			if o.peer == l {
				return o
			}
		}
	}
	return nil
}

// die ends a link whose peer cannot be told. It notices.
func (l *link) die(cause error) {
	if l.state == dead || l.over {
		return
	}
	other, n := l.other(), l.rail.network
	l.takeBack()
	l.lose(cause)
	l.end(false)
	if other != nil && other != l {
		n.push(&packet{kind: lost, to: other}, n.draw(n.config.DeathWithin))
	}
}

// leave ends a link that the engine gives up, and tells the peer.
func (l *link) leave() {
	other, n := l.other(), l.rail.network
	l.takeBack()
	l.lose(l.errClosed())
	if other != nil && other != l {
		n.push(&packet{kind: bye, from: l, to: other}, n.draw(min(n.config.Delay, n.config.DeathWithin)))
		if l.unsure || l.flying > 0 {
			n.push(&packet{kind: overdue, to: l}, n.config.DeathWithin)
			return
		}
	}
	l.end(false)
}

// left takes in that the peer has given up its end.
func (l *link) left(from *link) {
	if l.rail.dead {
		return
	}
	n := l.rail.network
	if l.state == calling || l.state == up {
		l.takeBack()
		l.lose(fmt.Errorf("%s: %w", l.address, rail.ErrPeerClosed))
		l.end(true)
	}
	if from.state == leaving {
		n.push(&packet{kind: byeSeen, from: l, to: from}, n.draw(n.config.Delay))
	}
}

// lose reports that a link is over.
func (l *link) lose(cause error) {
	if l.cause != nil {
		return
	}
	l.cause, l.told = cause, l.wanted || l.state != calling
	l.state = leaving
	if l.told {
		l.emit(rail.Event{Kind: rail.PeerLost, Peer: l.id, Err: cause})
	}
}

// end is for a lost link of whose peer nothing is awaited; proof says that it has destroyed its end.
func (l *link) end(proof bool) {
	if l.state != leaving {
		return
	}
	l.over, l.proof = true, l.proof || proof
	l.settle()
}

// settle reports the end of a link once its operations have come back.
func (l *link) settle() {
	if !l.over || l.flying > 0 || l.state == dead {
		return
	}
	l.state = dead
	delete(l.rail.links, l.id)
	if l.told {
		l.emit(rail.Event{Kind: rail.PeerDown, Peer: l.id, Err: l.cause, Proven: l.proof || !l.unsure})
	}
}

// grant lets the peer send as many immediates as the engine took, in bulk.
func (l *link) grant() {
	n := l.rail.network
	if l.rail.exhausted || l.state != up || l.owed < max(1, n.config.Immediates/2) {
		return
	}
	n.push(&packet{kind: grant, from: l, to: l.peer, count: l.owed}, n.draw(n.config.Delay))
	l.owed = 0
}

// source is who an immediate is said to come from.
func (l *link) source() rail.PeerID {
	if l.rail.network.config.NoImmSource {
		return 0
	}
	return l.id
}

// emit queues an event of the link.
func (l *link) emit(e rail.Event) {
	l.rail.events = append(l.rail.events, event{e, l})
	l.rail.notify()
}
