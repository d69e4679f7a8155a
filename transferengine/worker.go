package transferengine

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/weftrdma/weft/internal/ring"
	"github.com/weftrdma/weft/transferengine/rail"
)

const (
	batchLimit = 64 // writes in one post, at most
	eventLimit = 64 // events of one turn
)

// worker does all of an engine's work on its rail, in turns. It has no goroutine, no clock and never blocks; whoever
// holds the progress drives it, one goroutine at a time. What other goroutines see of it are the queue, transfers,
// counters, peers and counts.
type worker struct {
	engine   *Engine // for its peers
	rail     rail.Rail
	caps     rail.Caps
	name     string
	queue    *ring.MPSC[submission]
	counters *counterTable
	peers    *peerTable
	stats    *counts

	now         time.Time // of this turn
	nano        int64     // the same, in nanoseconds since 1970
	due         int64     // no deadline is missed before, and a look at them all is due then; 0 if there is none
	dueAt       time.Time // the same
	closing     bool      // peers are given up as they appear
	outstanding int       // operations that the rail has
	held        int       // slots whose transfer has ended, and whose operations the rail has not given back
	slots       []*slot
	free        []uint32 // slots without a transfer
	paths       map[rail.PeerID]*path
	recent      *path   // that an immediate came by last; nil when it is gone
	ready       []*path // that have something to post
	mailing     []*path // that have messages to send
	attempts    uint64  // at immediates that failed: the last one's number
	batch       []rail.Op
	runs        []run // whose writes are in batch
	events      []rail.Event
}

// submission is what waits in the queue: one of the four.
type submission struct {
	transfer   *Transfer
	connect    *connectCall
	disconnect *Peer
	forget     *forgetCall
}

// path is a rail's connection to a peer.
type path struct {
	worker  *worker
	id      rail.PeerID
	peer    *Peer          // nil until it is up
	calls   []*connectCall // that wait for it to come up
	reason  error          // why we gave it up, if not because the engine closes
	lost    bool
	cells   map[uint32]*cell
	recent  *cell // of the immediate that came last; nil when it is gone
	sweepAt int   // so many cells

	first, last *slot // transfers with something to post
	ready       bool  // in worker.ready
	blocked     bool  // the rail did not take all of the last batch

	failures    map[uint32]*failure // of immediates to the peer, by value
	spoils      map[uint32]*spoil   // of immediates of the peer
	mail        [][]byte            // messages that the rail has not taken
	said, heard uint64              // messages to the peer, and of the peer
	early       map[uint64]message  // that overtook others
}

func newWorker(e *Engine) *worker {
	caps := e.rail.Caps()
	w := &worker{
		engine: e, rail: e.rail, caps: caps, name: e.rail.Name(),
		queue: ring.New[submission](e.config.QueueDepth), counters: e.counters, peers: e.peers, stats: e.stats,
		paths:  make(map[rail.PeerID]*path),
		batch:  make([]rail.Op, min(caps.MaxBatch, batchLimit)),
		events: make([]rail.Event, eventLimit),
	}
	w.runs = make([]run, 0, len(w.batch)+1)
	return w
}

// Turn takes in what is queued, posts what can be posted and handles what the rail reports. It returns how many things it
// did, and when it must be called again even if nothing happens: the zero time if never.
//
// What is queued comes first, since its way is the longest. What is left is tried again after the rail's turn, which may
// have found what it waits for: completions, or credit.
func (w *worker) Turn(now time.Time) (did int, next time.Time) {
	w.now, w.nano = now, now.UnixNano()
	w.stats.turns.Add(1)
	if w.pending() {
		did = w.admit()
	}
	if len(w.ready) > 0 {
		did += w.post()
	}
	n, next := w.rail.Turn(now, w.events)
	if n > 0 {
		w.handle(w.events[:n])
	}
	if len(w.ready) > 0 {
		did += w.post()
	}
	if len(w.mailing) > 0 {
		w.deliver()
	}
	return did + n + w.watch(), w.orDue(next)
}

// idle tells whether the worker has nothing to do until the rail reports something, and the rail nothing to do for it.
func (w *worker) idle() bool {
	return w.outstanding == 0 && len(w.ready) == 0 && w.queue.Len() == 0
}

// launch begins a transfer and posts what can be posted of it. If something was begun a turn is due within that time.
func (w *worker) launch(now time.Time, t *Transfer) (within time.Duration, begun bool) {
	w.now, w.nano = now, now.UnixNano()
	w.begin(t)
	w.post()
	return time.Duration(w.due - w.nano), w.due != 0
}

// pending tells whether something was queued.
func (w *worker) pending() bool { return w.queue.Len() > 0 }

// unfinished tells whether the last turn left something to post that no event has to come for.
func (w *worker) unfinished() bool {
	for _, p := range w.ready {
		if !p.blocked {
			return true
		}
	}
	return w.pending()
}

// underWay is how many transfers have a slot.
func (w *worker) underWay() int { return len(w.slots) - len(w.free) - w.held }

// drained tells whether no request is under way, given that none is added any more.
func (w *worker) drained() bool { return w.underWay() == 0 && w.queue.Len() == 0 }

// alone tells whether no peer is left either, and so no operation.
func (w *worker) alone() bool { return w.drained() && len(w.paths) == 0 }

// onlyHeld tells whether nothing is left but what a rail cannot take back from lost peers.
func (w *worker) onlyHeld() bool {
	for _, p := range w.paths {
		if !p.lost {
			return false
		}
	}
	return !w.caps.Recalls && w.drained()
}

// admit takes submissions from the queue, at most one lap of it.
func (w *worker) admit() (did int) {
	for did < w.queue.Cap() {
		s, ok := w.queue.Pop()
		if !ok {
			break
		}
		did++
		switch {
		case s.connect != nil:
			w.connect(s.connect)
		case s.disconnect != nil:
			w.disconnect(s.disconnect.path)
		case s.forget != nil:
			w.forget(s.forget)
		default:
			w.begin(s.transfer)
		}
	}
	return did
}

// begin gives a transfer a slot for each of its peers and a place in their queues.
func (w *worker) begin(t *Transfer) {
	if t.targets == nil {
		w.beginWith(t, t.peer, 0, &t.plan)
		return
	}
	targets := t.targets // the transfer is its owner's again once the last of them is done
	for i := range targets {
		w.beginWith(t, targets[i].peer, i, &targets[i].plan)
	}
}

// beginWith gives a transfer a slot for one of its peers.
func (w *worker) beginWith(t *Transfer, peer *Peer, target int, p *plan) {
	err := peer.Err()
	if err == nil && w.closing {
		err = closedError{}
	}
	if err == nil {
		err = peer.refuses(p)
	}
	if err != nil {
		t.targetDone(peer, target, w.transferError(t, peer, NotDelivered, err))
		return
	}
	s := w.takeSlot()
	s.transfer, s.plan, s.target, s.path, s.deadline = t, p, target, peer.path, w.deadlineOf(t)
	w.dueBy(s.deadline)
	w.enqueue(s)
}

// owns tells whether a peer is one of this worker's, lost or not.
func (w *worker) owns(p *Peer) bool { return p != nil && p.path != nil && p.path.worker == w }

func (w *worker) transferError(t *Transfer, peer *Peer, outcome Outcome, cause error) *TransferError {
	return &TransferError{Op: t.op, Peer: peer, Rail: w.name, Outcome: outcome, Cause: cause}
}

// connect starts a connect call, or ends it if its peer is there.
func (w *worker) connect(c *connectCall) {
	if w.closing {
		c.finish(nil, closedError{})
		return
	}
	connect := w.rail.Connect
	if c.expect {
		connect = w.rail.Expect
	}
	id, err := connect(w.now, c.address, w.now.Add(c.timeout))
	if err != nil {
		c.finish(nil, err)
		return
	}
	p := w.paths[id]
	if p == nil {
		p = &path{worker: w, id: id, cells: make(map[uint32]*cell)}
		w.paths[id] = p
	}
	if p.peer != nil {
		c.finish(p.peer, nil)
		return
	}
	p.calls = append(p.calls, c)
}

// disconnect gives up a peer, unless it is lost or was given up.
func (w *worker) disconnect(p *path) {
	if w.paths[p.id] != p || p.lost || p.reason != nil {
		return
	}
	p.reason = fmt.Errorf("%s: %v was closed by this engine: %w", w.name, p.peer, net.ErrClosed)
	w.rail.Disconnect(w.now, p.id)
}

// handle takes in what the rail reports.
func (w *worker) handle(events []rail.Event) {
	var completions, failed, immediates uint64
	for i := range events {
		switch e := &events[i]; e.Kind {
		case rail.Completed:
			completions++
			if e.Err != nil {
				failed++
			}
			w.completed(e.Token, e.Err)
		case rail.Immediate:
			immediates++
			w.arrived(e.Peer, e.Imm)
		case rail.Message:
			w.heardOf(e.Peer, e.Data)
		case rail.PeerUp:
			w.peerUp(e.Peer, e.Info)
		case rail.PeerLost:
			w.peerLost(e.Peer, e.Err)
		case rail.PeerDown:
			w.peerDown(e.Peer, e.Err)
		}
	}
	addTo(&w.stats.completions, completions)
	addTo(&w.stats.errors, failed)
	addTo(&w.stats.immediates, immediates)
}

// arrived counts an immediate.
func (w *worker) arrived(id rail.PeerID, imm uint32) {
	p := w.recent
	if p == nil || p.id != id {
		if p = w.paths[id]; p == nil || p.peer == nil {
			w.stats.stray.Add(1)
			return
		}
		w.recent = p
	}
	c := p.recent
	if c == nil || c.counter.imm != imm {
		c = p.cells[imm]
	}
	for c == nil || !c.arrive() {
		if c = w.newCell(p, imm); c == nil {
			w.stats.immediatesDropped.Add(1)
			return
		}
	}
	p.recent = c
}

// fewCells are so few that it does not pay to look which of them are still of use.
const fewCells = 64

// newCell makes the cell of an immediate that a peer sends for the first time, or gives up a peer that sends too many.
func (w *worker) newCell(p *path, imm uint32) *cell {
	if p.reason != nil {
		return nil
	}
	limit := w.counters.limit
	if len(p.cells) >= max(p.sweepAt, min(fewCells, 2*limit)) {
		full := len(p.cells) >= 2*limit
		w.counters.sweep(p, full)
		p.sweepAt = min(2*len(p.cells), 2*limit) // so that it costs nothing on average
		if full && len(p.cells) > limit {
			w.giveUpFor(p, "it sent more than %d distinct immediates that no Wait took", limit)
			return nil
		}
	}
	c := w.counters.add(p.peer, imm)
	p.cells[imm] = c
	if s := p.spoils[imm]; s != nil && !s.cleared {
		w.counters.spoil(c, s.err)
	}
	return c
}

// giveUpFor gives up a peer that has brought something to its limit.
func (w *worker) giveUpFor(p *path, what string, limit int) {
	p.reason = fmt.Errorf("this engine gave up the peer, because "+what+" (Config.MaxImmediates)", limit)
	w.rail.Disconnect(w.now, p.id)
}

// peerUp makes the peer that a path leads to.
func (w *worker) peerUp(id rail.PeerID, info *rail.PeerInfo) {
	p := w.paths[id]
	if p == nil {
		p = &path{worker: w, id: id, cells: make(map[uint32]*cell)}
		w.paths[id] = p
	}
	if p.peer != nil || p.lost || info == nil {
		w.stats.stray.Add(1)
		return
	}
	p.peer = &Peer{engine: w.engine, name: info.Name, incarnation: info.Incarnation, path: p, done: make(chan struct{}), down: make(chan struct{})}
	w.stats.peersUp.Add(1)
	w.peers.add(p.peer, len(p.calls) == 0)
	if w.closing {
		w.rail.Disconnect(w.now, id)
	}
	for _, c := range p.calls {
		c.finish(p.peer, nil)
	}
	p.calls = nil
}

// peerLost ends everything that depends on a peer, but for what the rail has: operations, and immediates that were on their way.
func (w *worker) peerLost(id rail.PeerID, err error) {
	p := w.paths[id]
	if p == nil || p.lost {
		w.stats.stray.Add(1)
		return
	}
	p.lost = true
	if p.reason != nil {
		err = p.reason
	}
	if err == nil {
		err = rail.ErrPeerGone
	}
	for _, c := range p.calls {
		c.finish(nil, err)
	}
	p.calls = nil
	if p.peer == nil {
		return
	}
	w.stats.peersDown.Add(1)
	w.peers.remove(p.peer)
	p.peer.lose(err)
	w.failAll(p, err)
	w.counters.lost()
}

// peerDown forgets a peer: nothing of it is left. A rail that says so without a PeerLost, or while it has operations, must not make
// anybody hang.
func (w *worker) peerDown(id rail.PeerID, err error) {
	p := w.paths[id]
	if p == nil {
		w.stats.stray.Add(1)
		return
	}
	w.comeBack(p)
	if !p.lost {
		w.peerLost(id, err)
	}
	delete(w.paths, id)
	w.recent = nil
	if p.peer == nil {
		return
	}
	w.endSpoils(p)
	w.counters.orphan(p)
	close(p.peer.down)
}

// giveUp disconnects every peer, and those that appear from now on.
func (w *worker) giveUp(now time.Time) {
	if w.closing {
		return
	}
	w.closing, w.now = true, now
	for _, id := range slices.Sorted(maps.Keys(w.paths)) { // so that a run can be repeated
		w.rail.Disconnect(now, id)
	}
}

// abandon ends what a closed rail never gave back.
func (w *worker) abandon() {
	err := closedError{}
	for id := range w.paths {
		w.peerDown(id, err)
	}
	w.closing = true
	for {
		s, ok := w.queue.Pop()
		switch {
		case !ok:
			return
		case s.connect != nil:
			s.connect.finish(nil, err)
		case s.forget != nil:
			w.forget(s.forget)
		case s.transfer != nil:
			w.begin(s.transfer)
		}
	}
}
