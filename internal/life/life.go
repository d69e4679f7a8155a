// Package life has the one lifetime type, [Object], that every type backed by C memory, a mapping or a descriptor holds
// in an unexported field. It is the only place that decides whether a thing may still be used and whether it may be
// freed:
//
//   - a call on a closed object is an error and never reaches freed memory ([Object.Enter]);
//   - an object on which others were created cannot be closed before them ([Object.Close] gives EBUSY, as
//     ibv_dealloc_pd does);
//   - an object is freed once, after the calls in progress have returned;
//   - what a test leaves open is reported with the stack that created it ([Live]).
//
// Nothing is freed by the garbage collector: a NIC still writes to memory that Go no longer refers to, and
// deregistering it at an arbitrary moment turns a leak into corruption. A leak is the safe failure.
//
// # Creating a child
//
// The constructor of an object that lives on a parent (a queue pair on a protection domain) holds the parent open while
// it creates the C object:
//
//	if err := pd.life.Enter(); err != nil {
//		return nil, err
//	}
//	defer pd.life.Exit()
//	// create the C object
//	if err := qp.life.Init("queue pair", &pd.life, qp.destroy); err != nil {
//		// destroy the C object: the parent began to close meanwhile, and waits for Exit
//		return nil, err
//	}
package life

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// open is the bit of Object.calls that is set while calls may begin; the bits below count the calls in progress.
const open = 1 << 63

// state is what Init and Close have done to an object.
type state uint8

const (
	unborn state = iota
	live
	closing // waits for calls in progress, or runs free
	dead
)

// Object is the lifetime of one thing. Its zero value behaves as closed until Init. An Object must not be copied.
type Object struct {
	// Enter and Exit touch this word alone. It is zero exactly when the object is not open and no call is in progress.
	calls atomic.Uint64

	// mu guards what follows. A child's registration and the decision to close are both made under it, so that no child
	// can appear on an object that has decided to close.
	mu       sync.Mutex
	changed  sync.Cond // state left closing, or the last call of a closing object returned
	state    state
	kind     string
	parent   *Object
	free     func() error
	children map[string]int // how many live, by kind
}

// Init opens o. The kind names it in errors ("queue pair"); free gives back what it holds, is called without locks and
// at most once successfully, and must not call o.Close. The parent, which may be nil, cannot be closed before o is.
//
// Init returns an error that wraps net.ErrClosed when the parent is closed or closing, and one that wraps
// syscall.EINVAL when o was initialised before; o is then unchanged.
func (o *Object) Init(kind string, parent *Object, free func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != unborn {
		return fmt.Errorf("open %s: the object was already used for a %s: %w", kind, o.kind, syscall.EINVAL)
	}
	if parent != nil {
		if err := parent.adopt(kind); err != nil {
			return fmt.Errorf("open %s: %w", kind, err)
		}
	}
	o.changed.L = &o.mu
	o.kind, o.parent, o.free = kind, parent, free
	o.state = live
	o.calls.Or(open)
	leaks.born(o)
	return nil
}

// Enter begins a call on o, which cannot be freed until the matching Exit. When o is closed or closing it returns an
// error that wraps net.ErrClosed and names the kind, and Exit must not be called.
//
// Close waits for every call that has begun, so what happens between Enter and Exit must end by itself: a call that
// waits for the network is begun again for each attempt.
func (o *Object) Enter() error {
	// The load keeps late callers from moving the count up and down under a Close that waits for zero.
	if o.calls.Load()&open == 0 {
		return closedError(o.kind)
	}
	if o.calls.Add(1)&open == 0 {
		o.Exit()
		return closedError(o.kind)
	}
	return nil
}

// Exit ends a call that Enter began.
func (o *Object) Exit() {
	if o.calls.Add(^uint64(0)) == 0 {
		o.lastCallLeft()
	}
}

// Close frees o after the calls in progress have returned, and unregisters it from its parent.
//
// While children of o live it returns an error that wraps syscall.EBUSY and tells how many of which kind, and changes
// nothing. When free fails its error is returned and o is open again. Closing an object that is closed, or was never
// opened, returns nil; closing one that another goroutine is closing waits for the outcome.
func (o *Object) Close() error {
	if proceed, err := o.beginClose(); !proceed {
		return err
	}
	err := o.free()
	o.endClose(err)
	return err
}

// beginClose decides whether the caller may free o, and waits until no call is in progress.
func (o *Object) beginClose() (proceed bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.state == closing {
		o.changed.Wait()
	}
	if o.state != live {
		return false, nil
	}
	if len(o.children) > 0 {
		return false, o.busy()
	}
	o.state = closing
	o.calls.And(^uint64(open))
	for o.calls.Load() != 0 {
		o.changed.Wait()
	}
	return true, nil
}

// endClose records the outcome of free.
func (o *Object) endClose(err error) {
	// The parent lets go before anyone can see o closed: whoever has closed the last child can close the parent.
	if err == nil && o.parent != nil {
		o.parent.release(o.kind)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.state = live
		o.calls.Or(open)
	} else {
		o.state = dead
		o.parent, o.free = nil, nil // a closed object that is still referred to keeps nothing else alive
		leaks.died(o)
	}
	o.changed.Broadcast()
}

// lastCallLeft wakes the Close that waits for the calls in progress, if there is one.
func (o *Object) lastCallLeft() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

// adopt registers a child.
func (o *Object) adopt(kind string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != live {
		return closedError(o.kind)
	}
	if o.children == nil {
		o.children = make(map[string]int)
	}
	o.children[kind]++
	return nil
}

// release unregisters a child.
func (o *Object) release(kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.children[kind]--; o.children[kind] == 0 {
		delete(o.children, kind)
	}
}

// busy is the error of a Close that children forbid.
func (o *Object) busy() error {
	var kinds []string
	for kind, n := range o.children {
		kinds = append(kinds, fmt.Sprintf("%d × %s", n, kind))
	}
	slices.Sort(kinds)
	return fmt.Errorf("close %s: objects are open on it (%s), close them first: %w",
		o.kind, strings.Join(kinds, ", "), syscall.EBUSY)
}

// closedError is a use of a closed object of the kind. It has its own text because net.ErrClosed speaks of a network
// connection.
type closedError string

func (e closedError) Error() string {
	if e == "" {
		return "object was never opened"
	}
	return string(e) + " is closed"
}

func (e closedError) Unwrap() error { return net.ErrClosed }
