package transferengine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// Two engines, which would be in two processes. What one tells the other (addresses and descriptors, as bytes or text)
// travels by any means.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	network := simrail.NewNetwork(simrail.Config{}) // stands in for verbsrail.Config and its like

	receiver, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{network.Rail("192.0.2.2")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer receiver.Close()
	inbox, err := receiver.Register(make([]byte, 32), transferengine.RemoteWrite)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer inbox.Close()

	send(ctx, network, receiver.Address(), inbox.Descriptor())

	// The immediate says that the bytes are in place.
	if err := receiver.Counter(7).Wait(ctx, 1); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", inbox.Bytes()[:13])
	// Output: hello, memory
}

// send is the other process.
func send(ctx context.Context, network *simrail.Network, to transferengine.Address, inbox transferengine.Descriptor) {
	sender, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{network.Rail("192.0.2.1")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sender.Close()
	outbox, err := sender.Register([]byte("hello, memory"), transferengine.LocalOnly)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer outbox.Close()
	peer, err := sender.Connect(ctx, to)
	if err != nil {
		fmt.Println(err)
		return
	}
	var transfer transferengine.Transfer
	err = sender.Write(&transfer, transferengine.Write{Peer: peer, Source: outbox, Dest: &inbox, Length: 13,
		Imm: 7, HasImm: true})
	if err == nil {
		err = transfer.Wait(ctx)
	}
	if err != nil {
		fmt.Println(err)
	}
}
