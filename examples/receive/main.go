// Command receive lends a peer 32 bytes of its memory and waits until they have been written.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

func main() {
	tcp := fabricrail.Config{Provider: "tcp", Node: "127.0.0.1"} // this machine's address that the sender reaches
	engine, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{tcp}})
	check(err)
	inbox, err := engine.Register(make([]byte, 32), transferengine.RemoteWrite)
	check(err)
	descriptor, err := inbox.Descriptor().MarshalText()
	check(err)
	fmt.Printf("go run ./examples/send %v %s\n", engine.Address(), descriptor)

	ctx := context.Background()
	check(engine.Counter(7).Wait(ctx, 1)) // one write with immediate 7 has arrived, its bytes are in place
	fmt.Printf("%s\n", inbox.Bytes())

	check(engine.Shutdown(ctx))
	check(inbox.Close())
	check(engine.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
