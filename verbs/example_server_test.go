package verbs_test

import (
	"context"
	"log"

	"github.com/weftrdma/weft/verbs"
)

// server answers messages of many connections on one completion queue, and sleeps while there are none: no thread is held,
// and nothing spins.
type server struct {
	cq    *verbs.CQ            // made with Events
	conns map[uint32]*verbs.QP // by number, connected, with receives posted
	serve func(qp *verbs.QP, wc *verbs.WC) error
}

// run ends with ctx, whose error it returns, or with the first error of serve or of the queue.
func (s *server) run(ctx context.Context) error {
	wcs := make([]verbs.WC, 64)
	for {
		n, err := s.cq.Poll(wcs)
		if err != nil {
			return err
		}
		if n == 0 {
			// Arm, look again, and only then wait: a completion that came before Arm makes no event.
			if err := s.cq.Arm(); err != nil {
				return err
			}
			if n, err = s.cq.Poll(wcs); err != nil {
				return err
			}
		}
		if n == 0 {
			if err := s.cq.Wait(ctx); err != nil {
				return err
			}
			continue
		}
		for i := range wcs[:n] {
			if err := s.handle(&wcs[i]); err != nil {
				return err
			}
		}
	}
}

// handle drops a connection that failed; what it had posted is flushed, and comes here too.
func (s *server) handle(wc *verbs.WC) error {
	qp := s.conns[wc.QPN]
	if qp == nil {
		return nil
	}
	if err := wc.Err(); err != nil {
		log.Printf("connection %d: %v", wc.QPN, err)
		delete(s.conns, wc.QPN)
		return qp.Close()
	}
	return s.serve(qp, wc)
}

// A server that is driven by events. How clients connect is as in the ping-pong.
func Example_server() {
	var cq *verbs.CQ // made with Events
	s := &server{cq: cq, conns: map[uint32]*verbs.QP{}, serve: func(qp *verbs.QP, wc *verbs.WC) error {
		_, err := qp.PostRecv([]verbs.RecvWR{{ID: wc.ID}}, nil)
		return err
	}}
	if err := s.run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
