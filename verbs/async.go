package verbs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// EventType is what an asynchronous event is about (enum ibv_event_type).
type EventType uint32

// The asynchronous events.
const (
	EventCQErr EventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEstablished
	EventSQDrained
	EventPathMigrated
	EventPathMigrateErr
	EventDeviceFatal
	EventPortActive
	EventPortErr
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQErr
	EventSRQLimitReached
	EventQPLastWQEReached
	EventClientReregister
	EventGIDChange
	EventWQFatal
)

// String names the event.
//
// Implements:
//
//	const char *ibv_event_type_str(enum ibv_event_type event)
func (t EventType) String() string {
	return name(t, "CQ error", "QP fatal error", "QP request error", "QP access error", "communication established",
		"send queue drained", "path migrated", "path migration error", "device fatal error", "port active", "port error",
		"LID change", "P_Key change", "SM change", "SRQ error", "SRQ limit reached", "last WQE reached",
		"client reregistration", "GID change", "WQ fatal error")
}

// AsyncEvent is something that happened to a device outside of any queue. It concerns a port, one of the objects, or the
// whole device.
type AsyncEvent struct {
	Type EventType
	Port uint8 // 0 where it concerns none: an event of one port says nothing about another
	CQ   *CQ
	QP   *QP
	SRQ  *SRQ
}

// asyncEvent is struct weft_async_event.
type asyncEvent struct {
	object, element uint64
	typ, port       uint32
}

// maxEvents is how many events wait for a consumer. Events are rare: a port that goes down and up makes two, and some for
// its addresses.
const maxEvents = 64

// eventReader is the goroutine that reads a context's asynchronous events, from its opening to its end.
type eventReader struct {
	file *os.File // a duplicate of the context's descriptor
	out  chan AsyncEvent
	lost atomic.Uint64
	done chan struct{}

	mu       sync.Mutex
	watchers map[*watcher]struct{}
}

// watcher is told of each event on the reader's goroutine.
type watcher struct{ see func(AsyncEvent) }

// registry finds objects by the pointers of their C sides.
type registry struct {
	mu sync.Mutex
	m  map[uint64]any // *CQ, *QP or *SRQ
}

func key(raw unsafe.Pointer) uint64 { return uint64(uintptr(raw)) }

func (r *registry) add(raw unsafe.Pointer, object any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(raw, object)
}

// put is called with mu.
func (r *registry) put(raw unsafe.Pointer, object any) {
	if r.m == nil {
		r.m = make(map[uint64]any)
	}
	r.m[key(raw)] = object
}

// claim is add for an object that was made elsewhere: it tells whether the place was free.
func (r *registry) claim(raw unsafe.Pointer, object any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m[key(raw)] != nil {
		return false
	}
	r.put(raw, object)
	return true
}

// remove forgets the object, unless another has been made at the same place since it was destroyed.
func (r *registry) remove(raw unsafe.Pointer, object any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m[key(raw)] == object {
		delete(r.m, key(raw))
	}
}

func (r *registry) find(raw uint64) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[raw]
}

// Events gives the device's asynchronous events, as they come. They are read all the time, whether anybody takes them here
// or not; up to 64 wait, and what comes beyond is counted by [Context.LostEvents]. The channel is closed by Close.
//
// A port that comes back with other addresses, or at other places of the table, is found again by its GID: see
// [Context.FindGID].
//
// Implements:
//
//	int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
//	void ibv_ack_async_event(struct ibv_async_event *event)
func (c *Context) Events() <-chan AsyncEvent { return c.events.out }

// LostEvents is how many events found [Context.Events] full.
func (c *Context) LostEvents() uint64 { return c.events.lost.Load() }

// readEvents starts the reader.
func (c *Context) readEvents() error {
	fd, err := cAsyncFD(c.ptr)
	if err != nil {
		return err
	}
	if fd, err = dupCloseOnExec(fd); err != nil {
		return fmt.Errorf("duplicate the descriptor of asynchronous events: %w", err)
	}
	r := &c.events
	r.file = os.NewFile(uintptr(fd), "asynchronous events")
	conn, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	r.out, r.done = make(chan AsyncEvent, maxEvents), make(chan struct{})
	go func() {
		defer close(r.done)
		defer close(r.out)
		// Drained at each wake-up, since the poller is edge-triggered. It ends when the file is closed.
		_ = conn.Read(func(uintptr) bool { return !c.drainEvents() })
	}()
	return nil
}

// stop ends the reader and waits for its end.
func (r *eventReader) stop() {
	if r.done == nil {
		return
	}
	r.file.Close() // a duplicate: nothing is lost
	<-r.done
}

// drainEvents takes all events; false where the device can no longer be asked.
func (c *Context) drainEvents() bool {
	for {
		var raw asyncEvent
		err := cAsyncEvent(c.ptr, &raw)
		if err != nil {
			return errors.Is(err, syscall.EAGAIN)
		}
		event := AsyncEvent{Type: EventType(raw.typ), Port: uint8(raw.port)}
		switch object := c.objects.find(raw.object).(type) {
		case *CQ:
			event.CQ = object
		case *QP:
			event.QP = object
		case *SRQ:
			event.SRQ = object
		}
		cAckAsyncEvent(c.ptr, &raw) // the object could not be destroyed, and its place taken, before this
		c.report(event)
	}
}

func (c *Context) report(event AsyncEvent) {
	switch event.Type {
	case EventCQErr:
		if event.CQ != nil {
			event.CQ.fail()
		}
	case EventQPFatal, EventQPReqErr, EventQPAccessErr:
		if event.QP != nil {
			event.QP.fail(event.Type)
		}
	}
	r := &c.events
	r.mu.Lock()
	for w := range r.watchers {
		w.see(event)
	}
	r.mu.Unlock()
	select {
	case r.out <- event:
	default:
		r.lost.Add(1)
	}
}

// EventError is the failure of a queue pair that an asynchronous event reported.
type EventError struct {
	QPN  uint32
	Type EventType
}

func (e *EventError) Error() string {
	return fmt.Sprintf("QP %d: the device reported: %v", e.QPN, e.Type)
}

// fail enters that the device reported the queue pair lost.
func (qp *QP) fail(event EventType) {
	if qp.life.Enter() == nil { // it is not being closed
		cFailQP(qp.ptr, event)
		qp.life.Exit()
	}
}

func (r *eventReader) watch(w *watcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers == nil {
		r.watchers = make(map[*watcher]struct{})
	}
	r.watchers[w] = struct{}{}
}

func (r *eventReader) unwatch(w *watcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.watchers, w)
}
