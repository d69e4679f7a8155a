// Package liveness decides when a rail's peer is to be given a sign of life, and when it is lost for want of any.
package liveness

import (
	"errors"
	"fmt"
	"time"

	"github.com/weftrdma/weft/internal/process"
)

// ErrEnded says that the kernel has told of the end of a peer's process.
var ErrEnded = errors.New("its process has ended")

// Signs is what is known of one peer's life.
type Signs struct {
	Heard, Spoke time.Time        // when something came from the peer last, and when something was sent to it
	sentinel     process.Sentinel // of its process, nil if it is not on this host
	ended        time.Time        // when its process was seen to have ended, the zero time if it was not
}

// Watch has the kernel tell of the end of a peer's process, if it can.
func (s *Signs) Watch(theirs, ours process.ID) {
	if theirs.Visible(ours) {
		s.sentinel = process.Watch(theirs)
	}
}

// Close gives back what Watch took.
func (s *Signs) Close() {
	if s.sentinel != nil {
		s.sentinel.Close()
		s.sentinel = nil
	}
}

// Vigil looks after the peers of one rail. A peer is lost when its process has ended, or, where the kernel does not answer for
// the process, when nothing came from it for Timeout.
type Vigil struct {
	Heartbeat time.Duration // after how much silence towards a peer a sign of life is due
	Timeout   time.Duration

	lastTurn time.Time
	at       time.Time // when a look is due, the zero time if never

	// A rail under load never sees its queue empty. What was in the queue at some time is taken once the rail has taken as much as a
	// queue can hold.
	taken time.Time // what had come by then was taken
	mark  time.Time // the next such time, once left more were taken
	left  int
}

// Turn takes note of a turn of the rail's, and returns how long the rail paused if that was so long that the peers' silence
// meanwhile was not theirs: nobody listened. It is to be added to each peer's Heard.
func (v *Vigil) Turn(now time.Time) (pause time.Duration) {
	if !v.lastTurn.IsZero() && now.Sub(v.lastTurn) > v.Timeout/2 {
		pause = now.Sub(v.lastTurn)
	}
	v.lastTurn = now
	return pause
}

// Meet begins to look after a peer that has just come up.
func (v *Vigil) Meet(now time.Time, s *Signs) {
	s.Heard, s.Spoke = now, now
	v.at = Earlier(v.at, v.next(now, s))
}

// Next is when Look has to be called for every peer, between Begin and End; the zero time is never.
func (v *Vigil) Next() time.Time { return v.at }

// Due tells whether that time has come.
func (v *Vigil) Due(now time.Time) bool { return !v.at.IsZero() && !now.Before(v.at) }

// Begin starts a look at all peers that are up.
func (v *Vigil) Begin() { v.at = time.Time{} }

// Took notes that a turn took n completions and left some in the rail's queue, which holds at most most.
func (v *Vigil) Took(now time.Time, n, most int) {
	if v.left -= n; v.left <= 0 {
		v.taken, v.mark, v.left = v.mark, now, most
	}
}

// Taken is a time by which everything that had come has been taken. Drained tells that nothing was left in the queue in this turn.
func (v *Vigil) Taken(now time.Time, drained bool) time.Time {
	if drained {
		return now
	}
	return v.taken
}

// Look has a peer be given a sign of life if one is due, or says why the peer is lost. What came from the peer before the reason to
// judge it has been taken by then, as Taken tells.
func (v *Vigil) Look(now time.Time, s *Signs, drained bool, speak func()) (gone error) {
	taken := v.Taken(now, drained)
	if s.ended.IsZero() && s.sentinel != nil && s.sentinel.Ended() {
		s.ended = now
	}
	switch {
	case !s.ended.IsZero() && !taken.Before(s.ended):
		return ErrEnded
	case s.sentinel == nil && taken.Sub(s.Heard) >= v.Timeout:
		return fmt.Errorf("nothing came from it for %v", now.Sub(s.Heard))
	case now.Sub(s.Spoke) >= v.Heartbeat:
		speak()
	}
	v.at = Earlier(v.at, v.next(now, s))
	return nil
}

// End ends the look. Many peers are looked at together.
func (v *Vigil) End(now time.Time) {
	if soon := now.Add(min(v.Heartbeat/4, process.Interval)); !v.at.IsZero() && v.at.Before(soon) {
		v.at = soon
	}
}

// next is when a peer has to be looked at again.
func (v *Vigil) next(now time.Time, s *Signs) time.Time {
	speak := s.Spoke.Add(v.Heartbeat)
	if s.sentinel != nil {
		return Earlier(speak, now.Add(process.Interval))
	}
	return Earlier(speak, s.Heard.Add(v.Timeout))
}

// Earlier is the earlier of two times, of which the zero time is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
