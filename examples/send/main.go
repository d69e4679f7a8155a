// Command send writes into the memory of a receiver: send ADDRESS DESCRIPTOR.
package main

import (
	"context"
	"log"
	"os"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("send ADDRESS DESCRIPTOR: the receiver prints both")
	}
	var address transferengine.Address
	check(address.UnmarshalText([]byte(os.Args[1])))
	var inbox transferengine.Descriptor
	check(inbox.UnmarshalText([]byte(os.Args[2])))

	tcp := fabricrail.Config{Provider: "tcp", Node: "127.0.0.1"}
	engine, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{tcp}})
	check(err)
	outbox, err := engine.Register([]byte("hello, memory of another process"), transferengine.LocalOnly)
	check(err)
	ctx := context.Background()
	receiver, err := engine.Connect(ctx, address)
	check(err)
	var transfer transferengine.Transfer
	check(engine.Write(&transfer, transferengine.Write{Peer: receiver, Source: outbox, Dest: &inbox, Length: 32,
		Imm: 7, HasImm: true}))
	check(transfer.Wait(ctx))

	check(engine.Shutdown(ctx))
	check(outbox.Close())
	check(engine.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
