// Package railtest is the conformance suite of package rail: every rail passes it, and an engine may rely on no more.
//
// A rail's own test calls [Run] with a [Suite] that says how to open rails that reach one another, and how a peer's process
// ends. The suite takes the turns itself, from one goroutine; rails without a NIC can be given a virtual clock. A clause that needs a
// capability runs where rail.Caps has it. The suite's own test plants one bug after another in a rail and wants each found by the
// clause that is there for it.
package railtest
