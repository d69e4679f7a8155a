//go:build linux && cgo && !nofabric

package fabricrail_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

// An engine over libfabric's tcp, on any machine. Node is the address of this machine that peers reach; Service would be the
// port, which is free to choose here. The timeouts are those of a machine that pauses for seconds: give both ends the same.
func Example() {
	tcp := fabricrail.Config{Provider: "tcp", Node: "127.0.0.1", Heartbeat: 2 * time.Second, PeerTimeout: time.Minute}
	engine, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{tcp}})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	// An engine may connect to itself, which tries the rail end to end.
	self, err := engine.Connect(context.Background(), engine.Address())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(self.Err(), len(engine.Peers()))
	// Output: <nil> 1
}
