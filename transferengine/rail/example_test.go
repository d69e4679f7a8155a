package rail_test

import (
	"fmt"
	"log"
	"time"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// What an engine does with a rail, by hand: open, register, connect, post, and take turns. Two rails of one network in memory
// stand in for the NICs of two machines.
func Example() {
	network := simrail.NewNetwork(simrail.Config{})
	sender, target := open(network.Rail("192.0.2.1"), 1), open(network.Rail("192.0.2.2"), 2)

	text, inbox := []byte("hello, memory"), make([]byte, 13)
	source, err := sender.Register(text, rail.LocalOnly)
	check(err)
	lent, err := target.Register(inbox, rail.RemoteWrite)
	check(err)

	now := time.Now()
	peer, err := sender.Connect(now, target.Address(), now.Add(time.Second))
	check(err)
	await(rail.PeerUp, sender, target)

	n, err := sender.Post(peer, []rail.Op{{Kind: rail.Write, Token: 1, Imm: 7, HasImm: true, Length: 13,
		LocalAddr: mem.Addr(text), LocalKey: source.LocalKey(), RemoteAddr: lent.RemoteAddr(), RemoteKey: lent.RemoteKey()}})
	check(err)
	fmt.Println("accepted:", n) // fewer than all without an error is back-pressure: post the rest after a later turn
	fmt.Println("immediate:", await(rail.Immediate, target, sender).Imm, string(inbox))
	fmt.Println("completed: token", await(rail.Completed, sender, target).Token)

	check(source.Close())
	check(lent.Close())
	check(sender.Close())
	check(target.Close())
	// Output:
	// accepted: 1
	// immediate: 7 hello, memory
	// completed: token 1
}

// open opens a rail for an engine, whose incarnation would be random.
func open(opener rail.Opener, incarnation byte) rail.Rail {
	r, err := opener.Open(rail.Incarnation{incarnation})
	check(err)
	return r
}

// await takes turns of both rails until the first reports an event of the kind. An engine would handle every event; the other
// rail, which is given no room for any, keeps its events for later.
func await(kind rail.EventKind, r, other rail.Rail) rail.Event {
	var events [8]rail.Event
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		n, _ := r.Turn(time.Now(), events[:])
		for _, e := range events[:n] {
			if e.Kind == kind {
				return e
			}
		}
		other.Turn(time.Now(), nil)
	}
	log.Fatalf("no event of kind %v within a minute", kind)
	return rail.Event{}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
