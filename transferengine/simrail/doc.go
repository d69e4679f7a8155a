// Package simrail is a [rail.Rail] in memory: many engines in one process, without a NIC and without C, on a network that
// is as hostile as its [Script] and no friendlier than package rail promises. It serves two purposes.
//
// An application's own tests open engines on it instead of on a NIC; see the Example.
//
//	network := simrail.NewNetwork(simrail.Config{})
//	engine, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{network.Rail("192.0.2.1")}})
//
// And a test of what is above engines runs hundreds of them from one goroutine under a virtual clock: engines opened with
// Progress: transferengine.Manual, and driven by a [Run] in an order that the seed decides. The same seed then replays the
// same run, which [Network.Hash] shows; print it with every failure. [Network.Err] tells of what the engines, or the test, did
// wrong: look at it in the end.
//
// # What it does
//
// Operations land in any order, after a delay that is drawn for each, and are acknowledged after another; with
// Config.Ordered those of one peer keep their order. What a rail sent is on its way: it lands although the sender's end has
// died meanwhile, unless the target's has too. Connections are made by a hello and a welcome, which are repeated until
// answered. A receiver grants its peers immediates, and more of them as its engine takes what came.
//
// Its memory is the process's own, copied by whichever rail takes a turn when the operation is due. Under the race
// detector, an application that touches memory that is not its own to touch is therefore found.
package simrail
