package verbs_test

import (
	"fmt"
	"log"

	"github.com/weftrdma/weft/verbs"
)

// scatterPeer is what a sender knows of a peer: a connected queue pair, and the memory that it may write to.
type scatterPeer struct {
	qp   *verbs.QP
	addr uint64
	rkey uint32
}

// scatterer sends blocks of one region to many peers. All that stays the same from one scatter to the next, the peers, the
// keys and the flags, is prepared once.
type scatterer struct {
	template *verbs.Template
	patches  []verbs.Patch
	peers    []scatterPeer
	cq       *verbs.CQ
	source   *verbs.MR
}

func newScatterer(cq *verbs.CQ, source *verbs.MR, peers []scatterPeer) (*scatterer, error) {
	parts := make([]verbs.TemplatePart, len(peers))
	for i, peer := range peers {
		parts[i] = verbs.TemplatePart{QP: peer.qp, LKey: source.LKey(), WRs: []verbs.SendWR{{
			ID: uint64(i), Opcode: verbs.OpWriteImm, Imm: uint32(i), RKey: peer.rkey, Flags: verbs.SendSignaled,
		}}}
	}
	template, err := verbs.NewTemplate(parts...)
	if err != nil {
		return nil, err
	}
	return &scatterer{template, make([]verbs.Patch, len(peers)), peers, cq, source}, nil
}

// scatter writes block i of the source to the start of peer i's memory: one crossing into C for all peers. It returns when
// all have acknowledged.
func (s *scatterer) scatter(block uint32) error {
	for i := range s.patches {
		s.patches[i] = verbs.Patch{
			Addr: s.source.Addr() + uint64(i)*uint64(block), RemoteAddr: s.peers[i].addr, Length: block, Index: uint32(i),
		}
	}
	if _, err := s.template.Post(s.patches); err != nil {
		return err
	}
	var wcs [16]verbs.WC
	for done := 0; done < len(s.peers); {
		n, err := s.cq.PollSpin(wcs[:], verbs.MaxSpin)
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			if err := wcs[i].Err(); err != nil {
				return fmt.Errorf("peer %d: %w", wcs[i].ID, err)
			}
		}
		done += n
	}
	return nil
}

// A scatter to many peers by a template. How peers connect and tell their memory is as in the ping-pong.
func Example_scatter() {
	var (
		cq     *verbs.CQ     // of the sending queue pairs
		source *verbs.MR     // what is scattered
		peers  []scatterPeer // connected
	)
	s, err := newScatterer(cq, source, peers)
	if err != nil {
		log.Fatal(err)
	}
	defer s.template.Close()
	if err := s.scatter(4096); err != nil {
		log.Fatal(err)
	}
}
