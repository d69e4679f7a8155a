package liveness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/process"
)

// sentinel is a process that ends when the test says so.
type sentinel struct{ ended, closed bool }

func (s *sentinel) Ended() bool { return s.ended }
func (s *sentinel) Close()      { s.closed = true }

// watched is a vigil over some peers.
type watched struct {
	Vigil
	peers []*Signs
	spoke int
	gone  []error
}

// look looks at all peers if that is due.
func (w *watched) look(now time.Time, drained bool) {
	if !w.Due(now) {
		return
	}
	w.Begin()
	for _, s := range w.peers {
		w.gone = append(w.gone, w.Look(now, s, drained, func() { w.spoke++; s.Spoke = now }))
	}
	w.End(now)
}

func newWatched(now time.Time, peers ...*Signs) *watched {
	w := &watched{Vigil: Vigil{Heartbeat: time.Second, Timeout: 10 * time.Second}, peers: peers}
	for _, s := range peers {
		w.Meet(now, s)
	}
	return w
}

var start = time.Unix(1000, 0)

func TestNobodyNeedsNoLook(t *testing.T) {
	w := newWatched(start)
	require.True(t, w.Next().IsZero())
	require.False(t, w.Due(start.Add(time.Hour)))
}

func TestHeartbeatsAndSilence(t *testing.T) {
	s := &Signs{}
	w := newWatched(start, s)
	for now := start; now.Before(start.Add(10 * time.Second)); {
		now = w.Next()
		w.look(now, true)
	}
	require.Equal(t, 9, w.spoke, "one each second")
	require.EqualError(t, w.gone[len(w.gone)-1], "nothing came from it for 10s")
	for _, gone := range w.gone[:len(w.gone)-1] {
		require.NoError(t, gone)
	}
}

func TestWhoeverSpeaksNeedsNoHeartbeat(t *testing.T) {
	s := &Signs{}
	w := newWatched(start, s)
	for now := start; now.Before(start.Add(time.Minute)); now = now.Add(500 * time.Millisecond) {
		s.Spoke, s.Heard = now, now
		w.look(now, true)
	}
	require.Zero(t, w.spoke)
	for _, gone := range w.gone {
		require.NoError(t, gone)
	}
}

// TestKernelAnswersForAProcess: silence of a process that lives is not its end.
func TestKernelAnswersForAProcess(t *testing.T) {
	p := &sentinel{}
	s := &Signs{sentinel: p}
	w := newWatched(start, s)
	require.Equal(t, start.Add(process.Interval), w.Next())
	now := start.Add(time.Hour)
	w.look(now, true)
	require.NoError(t, w.gone[0])
	p.ended = true
	now = w.Next()
	require.Equal(t, start.Add(time.Hour+process.Interval), now)
	w.look(now, false)
	require.NoError(t, w.gone[1], "what it sent may not have been taken yet")
	w.look(w.Next(), true)
	require.ErrorIs(t, w.gone[2], ErrEnded)
	s.Close()
	s.Close()
	require.True(t, p.closed)
}

func TestSilenceIsJudgedWhenAllWasTaken(t *testing.T) {
	s := &Signs{}
	w := newWatched(start, s)
	w.look(start.Add(time.Minute), false)
	require.NoError(t, w.gone[0])
	w.look(start.Add(2*time.Minute), true)
	require.Error(t, w.gone[1])
}

func TestPauseOfTurnsIsNotSilence(t *testing.T) {
	w := newWatched(start)
	require.Zero(t, w.Turn(start))
	require.Zero(t, w.Turn(start.Add(5*time.Second)))
	require.Equal(t, time.Hour, w.Turn(start.Add(5*time.Second+time.Hour)))
}

// TestManyPeersAreLookedAtTogether: however they came, a look is not due again at once.
func TestManyPeersAreLookedAtTogether(t *testing.T) {
	w := newWatched(start)
	for i := range 100 {
		s := &Signs{}
		w.peers = append(w.peers, s)
		w.Meet(start.Add(time.Duration(i)*time.Millisecond), s)
	}
	looks := 0
	for now := start; now.Before(start.Add(5 * time.Second)); looks++ {
		now = w.Next()
		w.look(now, true)
	}
	require.Less(t, looks, 60)
	require.GreaterOrEqual(t, w.spoke, 400)
}

func TestEarlier(t *testing.T) {
	var never time.Time
	require.Equal(t, start, Earlier(never, start))
	require.Equal(t, start, Earlier(start, never))
	require.Equal(t, start, Earlier(start.Add(1), start))
	require.True(t, Earlier(never, never).IsZero())
}

// TestWatch is of this process, which needs not be told of its own end.
func TestWatch(t *testing.T) {
	var s Signs
	s.Watch(process.This(), process.This())
	require.Nil(t, s.sentinel)
	s.Close()
}

// TestUnderLoad has turns that always leave something in the queue, which holds 100.
func TestUnderLoad(t *testing.T) {
	talks, silent, ends := &Signs{}, &Signs{}, &sentinel{}
	dies := &Signs{sentinel: ends}
	w := newWatched(start, talks, silent, dies)
	var lost [3]time.Duration
	for now := start; now.Before(start.Add(15 * time.Second)); now = now.Add(10 * time.Millisecond) {
		w.Took(now, 10, 100)
		talks.Heard = now
		ends.ended = now.Sub(start) >= 3*time.Second
		w.gone = nil
		w.look(now, false)
		for i, gone := range w.gone {
			if gone != nil && lost[i] == 0 {
				lost[i] = now.Sub(start)
			}
		}
	}
	require.Zero(t, lost[0])
	for i, want := range []time.Duration{10 * time.Second, 3 * time.Second} {
		require.GreaterOrEqual(t, lost[1+i], want+90*time.Millisecond, "what was in the queue has been taken")
		require.Less(t, lost[1+i], want+400*time.Millisecond)
	}
}

// TestUnderLoadWhatWaitsInTheQueueCounts has a sign of life wait so long behind what others sent that it is heard after the timeout.
func TestUnderLoadWhatWaitsInTheQueueCounts(t *testing.T) {
	s := &Signs{}
	w := newWatched(start, s)
	for now := start; now.Before(start.Add(20 * time.Second)); now = now.Add(10 * time.Millisecond) {
		w.Took(now, 10, 5000) // of which the last was there for 5 s
		if now.Equal(start.Add(13 * time.Second)) {
			s.Heard = now // what was sent 8 s after the start
		}
		w.look(now, false)
	}
	for _, gone := range w.gone {
		require.NoError(t, gone)
	}
}
