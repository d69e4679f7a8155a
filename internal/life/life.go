// Package life has the one lifetime type, [Object], that every type backed by C memory, a mapping or a descriptor holds
// in an unexported field. It is the only place that decides whether a thing may still be used and whether it may be
// freed:
//
//   - a call on a closed object is an error and never reaches freed memory ([Object.Enter]);
//   - an object on which others were created cannot be closed before them ([Object.Close] gives EBUSY, as
//     ibv_dealloc_pd does);
//   - an object is freed once, after the calls in progress have returned;
//   - Go memory that a device was told of stays in place until the device has forgotten it ([Pin]);
//   - what a test leaves open is reported with the stack that created it ([Live]).
//
// Nothing is freed by the garbage collector: a NIC still writes to memory that Go no longer refers to, and
// deregistering it at an arbitrary moment turns a leak into corruption. A leak is the safe failure.
//
// # What a free function may say
//
// A free function that has freed nothing says so by [Refused], and its object is open again: Close can be tried later.
// A free function that has freed anything must end its object, whatever else goes wrong. So every other error closes the
// object for good: Close returns the error once, later Closes return nil, later calls are refused, and what could not be
// freed leaks. Close would otherwise free twice what the failed one had freed, and calls would reach it.
//
// A free function of several steps therefore takes the step that can be refused first, and returns Refused for no other:
//
//	func (cq *CQ) destroy() error {
//		if err := cDestroyCQ(cq.ptr); err != nil {
//			return life.Refused(err)
//		}
//		return cq.events.close() // the queue is gone, whatever comes of this
//	}
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
//
// An object may have further parents: a queue pair also stands on its completion queues.
package life

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// openBit is the bit of Object.calls that is set while calls may begin; the bits below count the calls in progress.
const openBit = 1 << 63

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
	parents  []*Object
	free     func() error
	children map[string]int // how many live, by kind
	unwanted bool           // the last child's Close closes it
}

// Init opens o. The kind names it in errors ("queue pair"); free gives back what it holds, is called without locks, never
// again unless it returned [Refused], and must not call o.Close. The parent, which may be nil, cannot be closed before o is,
// nor can any of more, which may name the same one several times.
//
// Init returns an error that wraps net.ErrClosed when a parent is closed or closing, and one that wraps
// syscall.EINVAL when o was initialised before; o is then unchanged.
func (o *Object) Init(kind string, parent *Object, free func() error, more ...*Object) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != unborn {
		return fmt.Errorf("open %s: the object was already used for a %s: %w", kind, o.kind, syscall.EINVAL)
	}
	parents := make([]*Object, 0, 1+len(more))
	for _, p := range append([]*Object{parent}, more...) {
		if p == nil || slices.Contains(parents, p) {
			continue
		}
		if err := p.adopt(kind); err != nil {
			_ = releaseAll(parents, kind) // they were open, and are
			return fmt.Errorf("open %s: %w", kind, err)
		}
		parents = append(parents, p)
	}
	o.changed.L = &o.mu
	o.kind, o.parents, o.free = kind, parents, free
	o.state = live
	o.calls.Or(openBit)
	leaks.born(o)
	return nil
}

// AddParent makes o stand on another object as well, which from then on cannot be closed before o is. It returns an error
// that wraps net.ErrClosed when either is closed or closing.
func (o *Object) AddParent(p *Object) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != live {
		return closedError(o.kind)
	}
	if slices.Contains(o.parents, p) {
		return nil
	}
	if err := p.adopt(o.kind); err != nil {
		return err
	}
	o.parents = append(o.parents, p)
	return nil
}

// RemoveParent takes that back, also of a parent that o was created on.
func (o *Object) RemoveParent(p *Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.parents, p); o.state == live && i >= 0 {
		o.parents = slices.Delete(o.parents, i, i+1)
		_ = p.release(o.kind)
	}
}

// Enter begins a call on o, which cannot be freed until the matching Exit. When o is closed or closing it returns an
// error that wraps net.ErrClosed and names the kind, and Exit must not be called.
//
// Close waits for every call that has begun, so what happens between Enter and Exit must end by itself: a call that
// waits for the network is begun again for each attempt.
func (o *Object) Enter() error {
	// The load keeps late callers from moving the count up and down under a Close that waits for zero.
	if o.calls.Load()&openBit == 0 {
		return closedError(o.kind)
	}
	if o.calls.Add(1)&openBit == 0 {
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

// refused is an error that comes with nothing freed.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// Refused marks the error of a free function that has freed nothing; it is nil for nil. The mark has to be outermost: an
// error that wraps a refusal, or is joined with one, speaks of more than what was refused. What [Object.Close] returns of a
// refusal is marked, so that a free function whose only step is another object's Close returns that as it is.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return refused{err}
}

// Close frees o after the calls in progress have returned, and unregisters it from its parents.
//
// While children of o live it returns an error that wraps syscall.EBUSY and tells how many of which kind, and changes
// nothing. An error that free marks with [Refused] is returned and o is open again. Any other error of free is returned, and
// o is closed. Closing an object that is closed, or was never opened, returns nil; closing one that another goroutine is
// closing waits for the outcome.
func (o *Object) Close() error {
	if proceed, err := o.beginClose(); !proceed {
		return err
	}
	err := o.free()
	if after := o.endClose(err); after != nil {
		err = errors.Join(err, after)
	}
	return err
}

// CloseAfterChildren is Close for an object whose children may outlive whoever closes it. While some live it returns nil, no more can
// be created, and the Close of the last one closes o too, and returns its error.
func (o *Object) CloseAfterChildren() error {
	o.mu.Lock()
	o.unwanted = true
	wait := len(o.children) > 0
	o.mu.Unlock()
	if wait {
		return nil
	}
	return o.Close()
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
		return false, Refused(o.busy())
	}
	o.state = closing
	o.calls.And(^uint64(openBit))
	for o.calls.Load() != 0 {
		o.changed.Wait()
	}
	return true, nil
}

// endClose records the outcome of free. The error is of parents that were to be closed with o.
func (o *Object) endClose(err error) (after error) {
	_, open := any(err).(refused) // the outermost alone, and not what it wraps: see Refused
	// The parents let go before anyone can see o closed: the goroutine that has closed the last child can close the parent.
	if !open {
		after = releaseAll(o.parents, o.kind)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if open {
		o.state = live
		o.calls.Or(openBit)
	} else {
		o.state = dead
		o.parents, o.free = nil, nil // a closed object that is still referred to keeps nothing else alive
		leaks.died(o)
	}
	o.changed.Broadcast()
	return after
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
	if o.state != live || o.unwanted {
		return closedError(o.kind)
	}
	if o.children == nil {
		o.children = make(map[string]int)
	}
	o.children[kind]++
	return nil
}

// release unregisters a child, and closes o if that was what it waited for.
func (o *Object) release(kind string) error {
	o.mu.Lock()
	if o.children[kind]--; o.children[kind] == 0 {
		delete(o.children, kind)
	}
	last := o.unwanted && len(o.children) == 0
	o.mu.Unlock()
	if last {
		return o.Close()
	}
	return nil
}

// releaseAll unregisters a child from all its parents.
func releaseAll(parents []*Object, kind string) error {
	var errs []error
	for _, p := range parents {
		errs = append(errs, p.release(kind))
	}
	return errors.Join(errs...)
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
