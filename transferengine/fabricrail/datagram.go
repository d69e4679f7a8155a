package fabricrail

import (
	"errors"
	"fmt"
	"time"

	"github.com/weftrdma/weft/fabric"
)

// datagram is the [transport] over one endpoint of reliable datagrams, which serves all peers. Nothing of one peer's can be taken back
// or destroyed: what is posted to a peer stays out until the provider gives it back.
type datagram struct {
	r       *Rail
	av      *fabric.AV
	cq      *fabric.CQ
	ep      *fabric.Endpoint
	await   awaiter
	remotes map[string]*remote // endpoints in the address vector, by name
}

func (d *datagram) open(info *fabric.Info) (name []byte, err error) {
	d.remotes = make(map[string]*remote)
	if d.av, err = d.r.domain.OpenAV(fabric.AVConfig{}); err != nil {
		return nil, err
	}
	if err = d.openCQ(); err != nil {
		return nil, err
	}
	d.ep, err = d.r.domain.OpenEndpoint(info, fabric.EndpointConfig{AV: d.av, TxCQ: d.cq, RxCQ: d.cq})
	if err != nil {
		return nil, err
	}
	d.r.queues = []*queue{{cq: d.cq}}
	return d.ep.Name()
}

// openCQ makes a queue with a descriptor, where the provider has one.
func (d *datagram) openCQ() (err error) {
	cfg := fabric.CQConfig{Depth: d.r.cfg.CompletionDepth, Wait: fabric.WaitFD}
	if d.cq, err = d.r.domain.OpenCQ(cfg); err == nil {
		d.await = d.cq
		return nil
	}
	cfg.Wait = fabric.WaitNone
	d.cq, err = d.r.domain.OpenCQ(cfg)
	return err
}

func (d *datagram) receiver() *fabric.Endpoint { return d.ep }

func (d *datagram) sleep() awaiter { return d.await }

// meet puts an endpoint into the address vector, if it is not there.
func (d *datagram) meet(a address) (*remote, error) {
	if to := d.remotes[a.name]; to != nil {
		return to, nil
	}
	addrs, err := d.av.Insert([]byte(a.name))
	if err != nil {
		return nil, fmt.Errorf("insert %v: %w", a, err)
	}
	to := &remote{ep: d.ep, cq: d.cq, addr: addrs[0]}
	d.remotes[a.name] = to
	return to, nil
}

// hold has the peer's endpoint be known before the first write, at both ends.
func (d *datagram) hold(c *conn) (err error) {
	c.remote, err = d.meet(c.peer)
	return err
}

func (d *datagram) bind(*conn) error { return nil }

// part takes an endpoint out of the address vector.
func (d *datagram) part(to *remote) {
	for name, other := range d.remotes {
		if other == to {
			delete(d.remotes, name)
			_ = d.av.Remove(to.addr) // one that stays takes a place there and does no harm
			return
		}
	}
}

func (d *datagram) calls(address, bool) {}

func (d *datagram) later(address, []byte) bool { return false }

func (d *datagram) recall(*conn) bool { return false }

func (d *datagram) turn() (next time.Time) { return next }

func (d *datagram) ready() bool { return false }

// connections is false, because nothing of one peer's can be ended: see Caps.Fences.
func (d *datagram) connections() bool { return false }

func (d *datagram) wake() {}

func (d *datagram) cutOff() error {
	if d.ep == nil {
		return nil
	}
	return d.ep.Close()
}

func (d *datagram) close() error {
	var errs []error
	if d.cq != nil {
		errs = append(errs, d.cq.Close())
	}
	if d.av != nil {
		errs = append(errs, d.av.Close())
	}
	return errors.Join(errs...)
}
