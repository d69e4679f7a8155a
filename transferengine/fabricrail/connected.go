package fabricrail

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/internal/liveness"
	"github.com/weftrdma/weft/transferengine/rail"
)

// connected is the [transport] over connections: each peer has an endpoint and a completion queue of its own, which are closed with
// its connection. It stands on what was seen of the provider tcp of libfabric 1.17, whose names of files are in parentheses:
//
//   - Closing an endpoint gives back all that was posted on it, with FI_ECANCELED, before the call returns, and the provider then has no
//     address of local memory any more (tcpx_ep_close, tcpx_ep_flush_all_queues). Some of it is given back without a word, a read whose
//     request was not sent; so what has not completed by then is flushed by the rail itself.
//   - Closing an endpoint in the middle of the answer to a read frees an entry of the queue's pool twice. What is posted on that queue
//     afterwards would share one entry. Hence the queue of its own: it goes with the endpoint.
//   - A completion does not say on which endpoint a write with data came, nor a message that took a shared receive. The queue does: what
//     one peer sends cannot pass for another's.
//   - The end of a connection is an event at both ends, whichever closed it.
//   - Nothing moves but in calls of this process: polling a queue moves its connection, and reading the event queue makes connections,
//     of which one call accepts at most one (tcpx_conn_mgr_run).
//
// The rail that connects calls the other's one port, with a request that has the key of the address that it calls, and its own address.
// Requests without the key are rejected before anything is made for them. Where two rails call each other at once, the call of the
// one whose address is the greater is taken.
type connected struct {
	r        *Rail
	info     *fabric.Info // of endpoints that call: without a port of their own
	listener *fabric.Listener
	eq       *fabric.EQ
	srx      *fabric.Endpoint
	set      *fabric.WaitSet

	links     map[linkKey]*link          // that serve, by whose they are
	all       map[*fabric.Endpoint]*link // these, and those that are the other end of a call to the rail itself
	may       map[linkKey]bool           // whom to call
	lost      []*link                    // whose end was seen, to be closed
	making    int                        // links that are not up
	looked    time.Time                  // at the event queue, last
	strayed   time.Time                  // when links without a connection were looked for, last
	strays    bool                       // there may be some
	requests  map[linkKey]waiting        // of rails whose last link is not closed yet
	closing   bool
	count     atomic.Int64 // of all
	strangers strangers
}

// waiting is a request that is answered once the last link of its rail is closed.
type waiting struct {
	event *fabric.Event
	since time.Time
}

const (
	// lookAtEvents is the time between two looks at the event queue, while nothing says that there is something.
	lookAtEvents = time.Millisecond
	// linkTimeout is how long a link may be without a connection: as long as a peer may take for its hello.
	linkTimeout = 5 * time.Second
)

func (t *connected) open(info *fabric.Info) (name []byte, err error) {
	t.links, t.all = make(map[linkKey]*link), make(map[*fabric.Endpoint]*link)
	t.may, t.requests = make(map[linkKey]bool), make(map[linkKey]waiting)
	if err := checkParams(); err != nil {
		return nil, err
	}
	hints := t.r.hints()
	hints.Service = ""
	infos, err := fabric.GetInfo(hints)
	if err != nil {
		return nil, err
	}
	t.info = infos[0]
	if t.set, err = fabric.NewWaitSet(); err != nil {
		return nil, err
	}
	if t.eq, err = t.r.fabric.OpenEQ(fabric.EQConfig{Wait: fabric.WaitFD, Set: t.set}); err != nil {
		return nil, err
	}
	if t.srx, err = t.r.domain.OpenSharedRx(info); err != nil {
		return nil, err
	}
	if t.listener, err = t.r.fabric.Listen(info, t.eq); err != nil {
		return nil, err
	}
	if name, err = t.listener.Name(); err != nil {
		return nil, err
	}
	return name, t.strangers.open(name)
}

// checkParams refuses what would have the kernel send from memory after an endpoint was closed.
func checkParams() error {
	const zerocopy = "FI_TCP_ZEROCOPY_SIZE"
	params, err := fabric.Params()
	for _, p := range params {
		if p.Name == zerocopy && p.Value != "" && p.Value != "-1" {
			return fmt.Errorf("%s is set (%s): operations could not be taken back: %w", zerocopy, p.Value, syscall.EINVAL)
		}
	}
	return err
}

func (t *connected) receiver() *fabric.Endpoint { return t.srx }

func (t *connected) sleep() awaiter { return t.set }

func (t *connected) ready() bool { return t.eq.Ready() }

func (t *connected) connections() bool { return t.count.Load() > 0 }

func (t *connected) wake() { _ = t.eq.Write(0, 0) } // a rail that is closed needs none

// meet returns the link to a rail that is up, or calls the rail if it may.
func (t *connected) meet(to address) (*remote, error) {
	if l := t.links[to.link()]; l != nil {
		if l.up && l.gone == nil {
			return &l.remote, nil
		}
		return nil, nil
	}
	if !t.may[to.link()] {
		return nil, nil
	}
	l, err := t.make(t.info, to.link())
	if err != nil {
		return nil, err
	}
	l.called = true
	t.links[l.key] = l
	if err := l.ep.Connect([]byte(to.name), t.r.request(to)); err != nil {
		return nil, errors.Join(fmt.Errorf("call %v: %w", to, err), t.shut(l))
	}
	return nil, nil
}

func (t *connected) hold(*conn) error { return nil }

// bind gives a connection the link on which the peer's hello came.
func (t *connected) bind(c *conn) error {
	l := t.links[c.peer.link()]
	if l == nil || !l.up || l.gone != nil {
		return fmt.Errorf("%w: its connection has ended", rail.ErrPeerGone)
	}
	if c.remote == nil {
		c.remote = &l.remote
		l.users++
	}
	l.conn = c
	return nil
}

// part closes a link that has served.
func (t *connected) part(to *remote) { _ = t.shut(to.link) }

func (t *connected) calls(to address, may bool) {
	if may {
		t.may[to.link()] = true
	} else {
		delete(t.may, to.link())
	}
}

func (t *connected) later(to address, message []byte) bool {
	l := t.links[to.link()]
	if l == nil || l.up || l.gone != nil {
		return false
	}
	l.hello = append(l.hello[:0], message...)
	return true
}

// turn takes what happened to links, and closes those that have ended.
func (t *connected) turn() (next time.Time) {
	now := t.r.now
	if t.making > 0 || t.r.woken || now.Sub(t.looked) >= lookAtEvents {
		t.looked = now
		t.look()
	}
	t.fenced()
	for len(t.lost) > 0 {
		l := t.lost[0]
		t.lost = t.lost[1:]
		t.ended(l)
	}
	scan, next := t.strangers.due(now)
	if f := &t.r.fences; f.begun != f.passed.Load() {
		next = liveness.Earlier(next, f.deadline)
	}
	if scan {
		t.strangers.scan(now, t.known)
	}
	if t.strays && now.Sub(t.strayed) >= linkTimeout/4 {
		t.strayed = now
		t.closeStrays()
	}
	if t.strays {
		next = liveness.Earlier(next, t.strayed.Add(linkTimeout/4))
	}
	return next
}

// look takes events. An event that is left has to be come back for: the queue's descriptor tells of the last one that was put there.
func (t *connected) look() {
	more := t.eq.Ready()
	for looks := 0; more && looks < looksPerScan; looks++ {
		e, err := t.eq.Read()
		more = t.happened(e, err) || t.eq.Ready()
		t.strangers.looks++
	}
	if more {
		t.r.sleeping.woke.Store(true)
	}
}

// happened takes what a look at the event queue brought, and tells whether that was anything.
func (t *connected) happened(e *fabric.Event, err error) bool {
	var failed *fabric.EventError
	switch {
	case errors.As(err, &failed):
		if l := t.all[failed.Endpoint]; l != nil {
			t.end(l, failed)
		}
	case err != nil || e == nil:
		return false
	case e.Type == fabric.EventConnReq:
		t.requested(e)
	case e.Type == fabric.EventConnected:
		if l := t.all[e.Endpoint]; l != nil {
			t.connectedTo(l)
		}
	case e.Type == fabric.EventShutdown:
		if l := t.all[e.Endpoint]; l != nil {
			t.end(l, nil)
		}
	}
	return true
}

// requested answers the request of a rail for a connection.
func (t *connected) requested(e *fabric.Event) {
	from, ok := t.r.readRequest(e.Param)
	if !ok || !t.r.handshake.MayCall(from) {
		t.r.ignored.Add(1)
		t.reject(e)
		return
	}
	key := from.link()
	switch l := t.links[key]; {
	case l == nil:
		t.accept(e, key)
	case key == t.r.self.link() && l.called:
		t.accept(e, key)
	case l.up && l.called && l.gone == nil:
		t.reject(e) // the calls crossed, and the peer has taken this rail's
	case l.gone != nil || l.up:
		// The peer would not call if the link were of use to it: its end is on the way, or somebody calls in its name, and then the link
		// stays. The call waits.
		if other, is := t.requests[key]; is {
			t.reject(other.event)
		}
		t.requests[key] = waiting{e, t.r.now}
		t.strays = true
	case l.called && compareLinks(t.r.self.link(), key) > 0:
		t.reject(e) // the peer takes this rail's call, as it compares likewise
	default:
		hello := l.hello
		_ = t.shut(l)
		t.accept(e, key)
		if l := t.links[key]; l != nil {
			l.hello = hello
		}
	}
}

func compareLinks(a, b linkKey) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key))
}

func (t *connected) reject(e *fabric.Event) { _ = t.listener.Reject(e.Info, nil) } // it has ended otherwise

// accept takes a call.
func (t *connected) accept(e *fabric.Event, key linkKey) {
	from, _ := socketAddress(e.Info.DestAddr)
	if t.crowded(from) {
		t.r.ignored.Add(1)
		t.reject(e)
		return
	}
	l, err := t.make(e.Info, key)
	if err != nil {
		t.r.ignored.Add(1)
		t.reject(e) // unless the endpoint had taken it
		return
	}
	if l.loop = key == t.r.self.link(); !l.loop {
		t.links[key] = l
	}
	if l.from, err = t.strangers.admit(l.ep); err == nil {
		err = l.ep.Accept(nil)
	}
	if err != nil {
		_ = t.shut(l)
	}
}

// connectedTo says on a link that has come up what waits to be said.
func (t *connected) connectedTo(l *link) {
	if l.up || l.gone != nil {
		return
	}
	l.up = true
	t.making--
	t.r.queues = append(t.r.queues, l.queue)
	if len(l.hello) > 0 {
		if i, b, ok := t.r.mailbox.buffer(&l.remote); ok {
			_, _ = t.r.mailbox.post(i, copy(b, l.hello), &l.remote, nil, 0) // the handshake repeats it
		}
		l.hello = nil
	}
}

// recall closes the link of a connection.
func (t *connected) recall(c *conn) bool {
	if c.remote != nil {
		_ = t.shut(c.remote.link)
	}
	return true
}

// closeStrays closes links that serve no connection and have had the time for it, and gives up requests that wait for as long.
func (t *connected) closeStrays() {
	t.strays = false
	for _, l := range t.all {
		other := t.links[l.key]
		if l.users > 0 || l.loop && other != nil && other.users > 0 {
			continue
		}
		if waits := l.called && t.may[l.key]; waits || t.r.now.Sub(l.since) <= linkTimeout {
			t.strays = true
		} else {
			_ = t.shut(l)
		}
	}
	t.strays = t.strays || len(t.requests) > 0
	for key, w := range t.requests {
		if t.r.now.Sub(w.since) > linkTimeout {
			delete(t.requests, key)
			t.reject(w.event)
		}
	}
}

func (t *connected) cutOff() error {
	var errs []error
	t.closing = true
	for _, l := range t.all {
		errs = append(errs, t.shut(l))
	}
	if t.srx != nil {
		errs = append(errs, t.srx.Close())
	}
	return errors.Join(errs...)
}

func (t *connected) close() error {
	var errs []error
	if t.listener != nil {
		for _, w := range t.requests {
			t.reject(w.event)
		}
		errs = append(errs, t.listener.Close())
	}
	errs = append(errs, t.strangers.close())
	if t.eq != nil {
		errs = append(errs, t.eq.Close())
	}
	if t.set != nil {
		errs = append(errs, t.set.Close())
	}
	return errors.Join(errs...)
}
