// Package simrail is a [rail.Rail] in memory: many engines in one process, without a NIC and without C, on a network that
// is as hostile as its [Script] and no friendlier than package rail promises. It serves two purposes.
//
// An application's own tests open engines on it instead of on a NIC; see the Example.
//
//	network := simrail.NewNetwork(simrail.Config{})
//	engine, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{network.Rail("192.0.2.1")}})
//
// A test of what stands on engines runs hundreds of them from one goroutine under a virtual clock: open the engines with
// Progress: transferengine.Manual, and drive them by a [Run], in an order that the seed decides. The same seed replays the
// same run, which [Network.Hash] shows; print the seed with every failure. [Network.Err] reports what the engines, or the test, did
// wrong: check it at the end.
//
// # What it does
//
// Operations land in any order, each after a delay that is drawn, and are acknowledged after another delay. With
// Config.Ordered the operations of one peer keep their order. What a rail sent is on its way: it lands although the sender's end has
// died meanwhile, unless the target's end has died too. Connections are made by a hello and a welcome, which are repeated until
// answered. A receiver grants its peers immediates, and more of them as its engine takes what came.
//
// The memory is the process's own, copied by the rail that takes a turn when the operation is due. So the race detector finds an
// application that touches memory while it belongs to the network.
package simrail
