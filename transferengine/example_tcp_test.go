//go:build linux && cgo && !nofabric

package transferengine_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Two engines over tcp, which works on any machine: the folder examples has them as two programs. One writes into the memory of
// the other, and then reads it back.
func Example_tcp() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	receiver, sender := openTCP(), openTCP()

	inbox, err := receiver.Register(make([]byte, 13), transferengine.RemoteWrite|transferengine.RemoteRead)
	check(err)
	outbox, err := sender.Register([]byte("hello, memory"), transferengine.LocalOnly)
	check(err)
	copied, err := sender.Register(make([]byte, 13), transferengine.LocalOnly)
	check(err)

	peer, err := sender.Connect(ctx, receiver.Address())
	check(err)
	descriptor := inbox.Descriptor()
	var transfer transferengine.Transfer // serves one request after another
	check(sender.Write(&transfer, transferengine.Write{Peer: peer, Source: outbox, Dest: &descriptor, Length: 13,
		Imm: 7, HasImm: true}))
	check(transfer.Wait(ctx))
	check(receiver.Counter(7).Wait(ctx, 1)) // the bytes are in the receiver's memory

	check(sender.Read(&transfer, transferengine.Read{Peer: peer, Source: &descriptor, Dest: copied, Length: 13}))
	check(transfer.Wait(ctx))
	fmt.Printf("%s, %s\n", inbox.Bytes(), copied.Bytes())

	// First the traffic, then the regions, then the engines.
	check(sender.Shutdown(ctx))
	check(receiver.Shutdown(ctx))
	for _, region := range []*transferengine.Region{inbox, outbox, copied} {
		check(region.Close())
	}
	check(sender.Close())
	check(receiver.Close())
	// Output: hello, memory, hello, memory
}

func openTCP() *transferengine.Engine {
	tcp := fabricrail.Config{Provider: "tcp", Node: "127.0.0.1"}
	engine, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{tcp}})
	check(err)
	return engine
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
