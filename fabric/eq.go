package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/solo"
)

// EQ is an event queue: what happens to connections, beside the data.
type EQ struct {
	life   life.Object
	fabric *Fabric
	ptr    unsafe.Pointer // struct weft_fi_eq *
	raw    unsafe.Pointer // struct fid_eq *
	wait   WaitObject
	events *waiter // of WaitFD
	set    *WaitSet
	fd     int // of a set
	waits  solo.Guard

	mu    sync.Mutex
	known map[unsafe.Pointer]any // whom events are about, by its struct fid
	// How many insertions into address vectors have ends that nobody has read: of those that are open, and by their struct fid of
	// those that are closed. Another one may have that by now; its events come later.
	begun map[*AV]int
	late  map[unsafe.Pointer]int
}

// EQConfig says how to make an event queue.
type EQConfig struct {
	Depth int // how many events must fit; 0 is the provider's choice
	Wait  WaitObject
	Set   *WaitSet // waits for the queue, with others; needs WaitFD
}

// OpenEQ makes an event queue.
//
// Implements:
//
//	int fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
func (f *Fabric) OpenEQ(cfg EQConfig) (*EQ, error) {
	if err := f.life.Enter(); err != nil {
		return nil, err
	}
	defer f.life.Exit()
	if cfg.Depth < 0 || cfg.Wait != WaitNone && cfg.Wait != WaitUnspec && cfg.Wait != WaitFD {
		return nil, invalid("open event queue: Depth %d is negative, or wait object %d unknown", cfg.Depth, cfg.Wait)
	}
	if cfg.Set != nil && cfg.Wait != WaitFD {
		return nil, invalid("open event queue: a wait set needs WaitFD")
	}
	eq := &EQ{fabric: f, wait: cfg.Wait, set: cfg.Set, known: map[unsafe.Pointer]any{}, begun: map[*AV]int{}, late: map[unsafe.Pointer]int{}}
	var fd int
	var err error
	if eq.ptr, fd, err = cOpenEQ(f.ptr, cfg); err != nil {
		return nil, fmt.Errorf("open event queue of %s: %w", f.Name(), err)
	}
	eq.raw = cRawEQ(eq.ptr)
	switch {
	case cfg.Set != nil:
		eq.fd = fd
		err = cfg.Set.add(fd, nil)
	case cfg.Wait == WaitFD:
		eq.events, err = newWaiter(fd, &eq.life)
	}
	if err == nil {
		err = eq.life.Init("event queue", &f.life, eq.close, cfg.Set.lifetime())
	}
	if err != nil {
		return nil, closeAfter(err, eq.close)
	}
	return eq, nil
}

func (eq *EQ) close() error {
	if eq.set != nil {
		eq.set.remove(eq.fd, nil) // while the descriptor is the queue's
	}
	if err := cCloseEQ(eq.ptr); err != nil {
		if eq.set != nil {
			err = errors.Join(err, eq.set.add(eq.fd, nil))
		}
		return life.Refused(err)
	}
	if eq.events != nil {
		eq.events.close()
	}
	return nil
}

// Close closes the queue. It is refused with EBUSY while anything is bound to it. A Wait in progress ends.
func (eq *EQ) Close() error { return eq.life.Close() }

// Raw returns the struct fid_eq pointer, for calls that this package does not have.
func (eq *EQ) Raw() unsafe.Pointer { return eq.raw }

func (eq *EQ) lifetime() *life.Object { return &eq.life }

func (eq *EQ) know(raw unsafe.Pointer, object any) {
	eq.mu.Lock()
	defer eq.mu.Unlock()
	eq.known[raw] = object
}

// forget is for an object that was closed: another one may have its struct fid by now.
func (eq *EQ) forget(raw unsafe.Pointer, object any) {
	eq.mu.Lock()
	defer eq.mu.Unlock()
	if eq.known[raw] == object {
		delete(eq.known, raw)
	}
}

// insertion notes that n more insertions into an address vector have begun.
func (eq *EQ) insertion(av *AV, n int) {
	eq.mu.Lock()
	defer eq.mu.Unlock()
	eq.begun[av] += n
}

// forgetAV is forget for an address vector.
func (eq *EQ) forgetAV(av *AV) {
	eq.forget(av.raw, av)
	eq.mu.Lock()
	defer eq.mu.Unlock()
	if n := eq.begun[av]; n > 0 {
		eq.late[av.raw] += n
	}
	delete(eq.begun, av)
}

// about is what an event is about, nil for an object that is not open.
func (eq *EQ) about(raw *rawEvent) any {
	eq.mu.Lock()
	defer eq.mu.Unlock()
	fid, ended := cObject(raw.object), raw.err == 0 // an insertion; its error comes before its end
	if eq.late[fid] > 0 {
		if ended {
			eq.late[fid]--
		}
		if eq.late[fid] == 0 {
			delete(eq.late, fid)
		}
		return nil
	}
	about := eq.known[fid]
	if av, ok := about.(*AV); ok && ended {
		eq.begun[av]--
	}
	return about
}

// EventType is what happened.
type EventType uint32

// The events.
const (
	EventNotify     EventType = 0 // put into the queue by Write
	EventConnReq    EventType = 1 // a peer wants to connect: accept or reject Info
	EventConnected  EventType = 2
	EventShutdown   EventType = 3 // the peer, or the connection, is gone
	EventMRComplete EventType = 4
	EventAVComplete EventType = 5
	EventJoin       EventType = 6
)

func (t EventType) String() string {
	names := [...]string{"notify", "connection request", "connected", "shutdown", "region registered", "addresses inserted",
		"group joined"}
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprint(uint32(t))
}

// Event is one event.
type Event struct {
	Type     EventType
	Endpoint *Endpoint // whom it is about; nil if it is about none of this package's
	Listener *Listener // likewise
	AV       *AV       // likewise
	Info     *Info     // of EventConnReq: open an endpoint of it
	Param    []byte    // what the peer sent along
	Context  uint64    // of EventNotify and EventAVComplete
	Data     uint64    // of EventNotify; of EventAVComplete how many addresses are in, 1 or 0
	Peer     Addr      // of EventAVComplete: by which operations call it
}

// EventError is an event that says that something failed, such as a connection that was refused.
type EventError struct {
	Endpoint  *Endpoint // whom it is about, if that is known
	AV        *AV       // likewise
	Context   uint64    // of an insertion into the AV
	Reason    error     // a [syscall.Errno] or [Errno]
	ProvErrno int
	Text      string // the provider's
	Param     []byte // what the peer sent with a rejection
}

func (e *EventError) Error() string {
	return fmt.Sprintf("event: %v (provider error %d: %s)", e.Reason, e.ProvErrno, e.Text)
}

// Unwrap returns the reason.
func (e *EventError) Unwrap() error { return e.Reason }

// rawEvent is struct weft_fi_event.
type rawEvent struct {
	object, context, data, info uint64
	typ, err                    uint32
	provErrno                   int32
	paramLen                    uint32
	param                       [addrSize]byte
	text                        [textSize]byte
}

// Read takes the next event; nil if there is none. An event that reports a failure is an *[EventError].
//
// Implements:
//
//	ssize_t fi_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
//	ssize_t fi_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
//	const char *fi_eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf, size_t len)
func (eq *EQ) Read() (*Event, error) {
	return eq.take(func(e *rawEvent) error {
		if eq.set != nil {
			cTryWaitEQ(eq.ptr) // ends what says that there is something: this looks whether there is
		}
		return cReadEQ(eq.ptr, e)
	})
}

// Ready tells of a queue of a [WaitSet], at less cost than Read does, whether Read may find something or make something happen.
func (eq *EQ) Ready() bool {
	if eq.life.Enter() != nil {
		return false
	}
	defer eq.life.Exit()
	return eq.set == nil || readable(eq.fd)
}

// take is guarded by itself, since Close must not wait for a Wait.
func (eq *EQ) take(call func(*rawEvent) error) (*Event, error) {
	if err := eq.life.Enter(); err != nil {
		return nil, err
	}
	defer eq.life.Exit()
	var raw rawEvent
	if err := call(&raw); err != nil {
		if errors.Is(err, syscall.EAGAIN) {
			err = nil
		}
		return nil, err
	}
	return eq.export(&raw)
}

func (eq *EQ) export(raw *rawEvent) (*Event, error) {
	about := eq.about(raw)
	endpoint, _ := about.(*Endpoint)
	listener, _ := about.(*Listener)
	av, _ := about.(*AV)
	peer := AddrUnspec
	if av != nil {
		raw.context, peer = av.inserted(raw.context, raw.err == 0)
	} else if EventType(raw.typ) == EventAVComplete {
		raw.context = 0 // of an address vector that is closed by now
	}
	param := bytes.Clone(raw.param[:min(raw.paramLen, addrSize)])
	if raw.err != 0 {
		failed := &EventError{
			Endpoint: endpoint, AV: av, Reason: reason(int(raw.err)), ProvErrno: int(raw.provErrno), Text: text(raw.text[:]), Param: param,
		}
		if av != nil {
			failed.Context = raw.context
		}
		return nil, failed
	}
	e := &Event{
		Type: EventType(raw.typ), Endpoint: endpoint, Listener: listener, AV: av, Param: param, Context: raw.context,
		Data: raw.data, Peer: peer,
	}
	if raw.info != 0 {
		e.Info = newInfo(cObject(raw.info), true)
		e.Info.request = &request{to: listener}
	}
	return e, nil
}

// Wait blocks until there is an event, and takes it as Read does; or until ctx ends, and its error is then ctx's. One
// goroutine at a time may wait.
//
// Implements:
//
//	ssize_t fi_eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
func (eq *EQ) Wait(ctx context.Context) (*Event, error) {
	eq.waits.Use()
	if eq.set != nil {
		return nil, invalid("wait on event queue: it is one of a wait set, which waits for it")
	}
	switch eq.wait {
	case WaitNone:
		return nil, invalid("wait on event queue: it was opened without EQConfig.Wait")
	case WaitFD:
		var event *Event
		_, err := eq.events.wait(ctx, func() (int, error) {
			var err error
			if event, err = eq.Read(); event == nil {
				return 0, err
			}
			return 1, nil
		}, func() bool { return cTryWaitEQ(eq.ptr) })
		return event, err
	}
	for {
		event, err := eq.take(func(e *rawEvent) error { return cWaitEQ(eq.ptr, e, waitSlice) })
		if event != nil || err != nil {
			return event, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// Write puts an EventNotify into the queue.
//
// Implements:
//
//	ssize_t fi_eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len, uint64_t flags)
func (eq *EQ) Write(context, data uint64) error {
	if err := eq.life.Enter(); err != nil {
		return err
	}
	defer eq.life.Exit()
	return cWriteEQ(eq.ptr, uint32(EventNotify), context, data)
}
