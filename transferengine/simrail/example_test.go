package simrail_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// A test of an application that has two engines. Both are in this process and on no NIC.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	network := simrail.NewNetwork(simrail.Config{Delay: 50 * time.Microsecond})
	open := func(address string) *transferengine.Engine {
		e, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{network.Rail(address)}})
		if err != nil {
			panic(err)
		}
		return e
	}
	sender, receiver := open("192.0.2.1"), open("192.0.2.2")
	defer sender.Close()
	defer receiver.Close()
	inbox, _ := receiver.Register(make([]byte, 32), transferengine.RemoteWrite)
	defer inbox.Close()
	outbox, _ := sender.Register([]byte("hello, memory"), transferengine.LocalOnly)
	defer outbox.Close()

	peer, err := sender.Connect(ctx, receiver.Address())
	if err != nil {
		panic(err)
	}
	dest, transfer := inbox.Descriptor(), new(transferengine.Transfer)
	err = sender.Write(transfer, transferengine.Write{Peer: peer, Source: outbox, Dest: &dest, Length: 13, Imm: 7, HasImm: true})
	if err != nil {
		panic(err)
	}
	fmt.Println(receiver.Counter(7).Wait(ctx, 1), transfer.Wait(ctx), string(inbox.Bytes()[:13]))
	// Output: <nil> <nil> hello, memory
}
