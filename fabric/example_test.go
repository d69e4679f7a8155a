//go:build linux && cgo && !nofabric

package fabric_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"slices"

	"github.com/weftrdma/weft/fabric"
)

// node is one end: an endpoint with what it stands on, and registered memory.
type node struct {
	av     *fabric.AV
	cq     *fabric.CQ
	ep     *fabric.Endpoint
	mr     *fabric.MR
	opened []io.Closer
}

// must returns a result. A program that serves others would return the error instead.
func must[T any](result T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return result
}

// openNode opens a node over tcp and registers the memory, a Go slice, which is pinned.
func openNode(memory []byte) *node {
	info := must(fabric.GetInfo(fabric.Hints{Provider: "tcp", Node: "127.0.0.1", Caps: fabric.CapMsg | fabric.CapRMA}))[0]
	f := must(fabric.OpenFabric(info))
	domain := must(f.OpenDomain(info))
	n := &node{av: must(domain.OpenAV(fabric.AVConfig{})), cq: must(domain.OpenCQ(fabric.CQConfig{}))}
	n.ep = must(domain.OpenEndpoint(info, fabric.EndpointConfig{AV: n.av, TxCQ: n.cq, RxCQ: n.cq}))
	n.mr = must(domain.RegMR(memory, fabric.MRConfig{Access: fabric.AccessAll}))
	n.opened = []io.Closer{f, domain, n.av, n.cq, n.ep, n.mr}
	return n
}

// close closes what was opened last first.
func (n *node) close() {
	for _, c := range slices.Backward(n.opened) {
		if err := c.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

// poll reports whether a completion has come that is asked for. tcp moves only when it is called, so both ends poll.
func (n *node) poll(asked func(*fabric.Completion) bool) (came bool) {
	var completions [8]fabric.Completion
	for i := range must(n.cq.Poll(completions[:])) {
		c := &completions[i]
		if err := n.cq.Err(c); err != nil {
			log.Fatal(err)
		}
		came = came || asked(c)
	}
	return came
}

// One end writes into the memory of the other, with data that the other finds in its completion queue. Both are in one
// process here. In two, the endpoint's name, and the region's address and key, travel by any means.
func Example() {
	inbox := make([]byte, 13)
	sender, target := openNode([]byte("hello, memory")), openNode(inbox)
	defer sender.close()
	defer target.close()

	// Each inserts the other before the first write.
	peer := must(sender.av.Insert(must(target.ep.Name())))[0]
	must(target.av.Insert(must(sender.ep.Name())))

	ops := []fabric.Op{{ID: 1, Peer: peer, Flags: fabric.FlagRemoteCQData | fabric.FlagDeliveryComplete, Data: 7,
		RemoteAddr: target.mr.Addr(), RemoteKey: target.mr.RKey(), NumSeg: 1}}
	segs := []fabric.Seg{sender.mr.Seg(0, 13)}
	var sent, arrived bool
	for !sent || !arrived {
		accepted, err := sender.ep.Write(ops, segs)
		if err != nil && !errors.Is(err, fabric.ErrQueueFull) { // a full queue is back-pressure: post the rest later
			log.Fatal(err)
		}
		ops, segs = ops[accepted:], segs[accepted:]
		sent = sender.poll(func(c *fabric.Completion) bool { return c.ID == 1 }) || sent
		arrived = target.poll(func(c *fabric.Completion) bool { return c.Data == 7 }) || arrived
	}
	fmt.Printf("%s\n", inbox)
	// Output: hello, memory
}
