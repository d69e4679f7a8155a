package transferengine

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"
)

// Scatter queues a write to many peers; t reports when every target is done, also if one of them failed. The error is then
// a [*ScatterError], which says which targets those are. A Transfer that was used for as many targets
// before allocates nothing. Otherwise it is like [Engine.Write]: if one target is refused, nothing is sent to any.
func (e *Engine) Scatter(t *Transfer, s Scatter) error {
	if len(s.Targets) == 0 {
		return fmt.Errorf("scatter: Targets is empty: %w", syscall.EINVAL)
	}
	if err := e.claim(t, opScatter, s.Timeout, s.Source); err != nil {
		return fmt.Errorf("scatter: %w", err)
	}
	t.peer, t.targets = nil, t.spare[:0]
	if err := e.planTargets(t, &s); err != nil {
		for i := range t.targets {
			t.targets[i].peer.transfers.Add(-1)
		}
		e.unclaim(t)
		return err
	}
	return e.hand(t, s.More)
}

// planTargets checks the targets of a scatter and lays them out. Those that it has put into the transfer are counted as
// in flight to their peers.
func (e *Engine) planTargets(t *Transfer, s *Scatter) error {
	for i := range s.Targets {
		to := &s.Targets[i]
		w := Write{Peer: to.Peer, Source: s.Source, SourceOffset: to.SourceOffset, Dest: to.Dest, DestOffset: to.DestOffset,
			Length: to.Length, Imm: s.Imm, HasImm: s.HasImm, Shards: s.Shards}
		next := target{peer: to.Peer}
		err := e.planWrite(&next.plan, &w)
		if err == nil {
			err = e.admit(opScatter, to.Peer, &next.plan)
		}
		if errors.Is(err, ErrQueueFull) {
			err = cmp.Or(e.checkFits(s, to.Peer), err)
		}
		if err != nil {
			return fmt.Errorf("scatter: target %d: %w", i, wrapRequest(opScatter, to.Peer, err))
		}
		t.targets = append(t.targets, next)
	}
	t.left = len(t.targets)
	return nil
}

// checkFits refuses a scatter with more targets at one peer than may be in flight to it: waiting would not help.
func (e *Engine) checkFits(s *Scatter, peer *Peer) error {
	n := 0
	for i := range s.Targets {
		if s.Targets[i].Peer == peer {
			n++
		}
	}
	if n > e.config.MaxTransfers {
		return fmt.Errorf("%d targets are at this peer, at most %d are possible (Config.MaxTransfers): %w",
			n, e.config.MaxTransfers, syscall.EINVAL)
	}
	return nil
}
