package fabric

import (
	"context"
	"slices"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/solo"
)

// WaitSet waits for several queues at once, which are opened with it ([CQConfig].Set, [EQConfig].Set) and have [WaitFD]. Queues come
// and go while somebody waits. A queue of a set is not waited for by itself.
type WaitSet struct {
	life   life.Object
	waiter *waiter
	cqs    []*CQ // guarded by the waiter's mutex
	waits  solo.Guard
}

// NewWaitSet makes a set without queues.
func NewWaitSet() (*WaitSet, error) {
	s := &WaitSet{}
	d, err := newDescriptors()
	if err != nil {
		return nil, err
	}
	if s.waiter, err = waiterOn(d, &s.life); err == nil {
		err = s.life.Init("wait set", nil, s.close)
	}
	if err != nil {
		return nil, closeAfter(err, s.close)
	}
	return s, nil
}

func (s *WaitSet) close() error {
	s.waiter.close()
	return nil
}

// Close closes the set. It is refused with EBUSY while queues are open in it. An Await in progress ends.
func (s *WaitSet) Close() error { return s.life.Close() }

// Await blocks until a queue of the set may have something; or until ctx ends, and its error is then ctx's. It may return without
// that anything is there. One goroutine at a time may await. It also returns once somebody polls a queue of the set, because a
// goroutine that polls needs no other to look.
func (s *WaitSet) Await(ctx context.Context) error {
	s.waits.Use()
	_, err := s.waiter.wait(ctx, s.look, func() bool { return true })
	return err
}

// look returns 1 if a queue may have something. The provider's own look ends what only says that there once was something. An event
// queue is not looked at so: its events would stay and nothing say that they are there.
func (s *WaitSet) look() (int, error) {
	if err := s.life.Enter(); err != nil {
		return 0, err
	}
	defer s.life.Exit()
	s.waiter.mu.Lock()
	defer s.waiter.mu.Unlock()
	for _, cq := range s.cqs {
		if !cTryWaitCQ(cq.ptr) {
			return 1, nil
		}
	}
	if s.waiter.descriptor.readable() {
		return 1, nil
	}
	return 0, nil
}

// add has the set wait for a queue's descriptor, too.
func (s *WaitSet) add(fd int, cq *CQ) error {
	s.waiter.mu.Lock()
	defer s.waiter.mu.Unlock()
	if cq != nil {
		s.cqs = append(s.cqs, cq)
	}
	return s.waiter.descriptor.add(fd)
}

// remove takes a queue out, before it is closed.
func (s *WaitSet) remove(fd int, cq *CQ) {
	s.waiter.mu.Lock()
	defer s.waiter.mu.Unlock()
	s.cqs = slices.DeleteFunc(s.cqs, func(other *CQ) bool { return other == cq })
	s.waiter.descriptor.remove(fd)
}

// lifetime is nil for no set.
func (s *WaitSet) lifetime() *life.Object {
	if s == nil {
		return nil
	}
	return &s.life
}
