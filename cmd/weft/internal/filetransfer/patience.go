package filetransfer

import (
	"context"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

func isAlive(m wire.Message) bool {
	_, ok := m.(*wire.Alive)
	return ok
}

// patience bounds one wait for the other end.
func (s *session) patience() (context.Context, context.CancelFunc) { return s.patienceOf(s.ctx) }

// patienceOf is patience for a context of the session's. The wait ends with an error when the other end has neither done
// what is awaited nor said that it works for Timeouts.Idle.
func (s *session) patienceOf(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	limit, started := s.timeouts.Idle, time.Since(s.began)
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(limit, func() {
		<-ready
		heard := max(time.Duration(s.alive.Load()), started)
		if left := limit - (time.Since(s.began) - heard); left > 0 {
			timer.Reset(left)
			return
		}
		cancel(s.idle(limit))
	})
	close(ready)
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// whileWorking tells the other end that this one works while f does, so that it goes on waiting.
func (s *session) whileWorking(f func() error) error {
	timer := time.NewTicker(s.timeouts.Idle / 4)
	defer timer.Stop()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		select {
		case err := <-done:
			return err
		case <-timer.C:
			if err := s.conn.Send(&wire.Alive{}); err != nil {
				s.cancel(s.reason(err))
			}
		}
	}
}
