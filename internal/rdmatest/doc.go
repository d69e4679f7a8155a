// Package rdmatest supports the tests of this module: it skips by capability, finds the RDMA device, runs children that
// are processes of their own, bounds every wait, and fails a test run that leaves something open.
//
// Limits bound hangs, not speed. Every limit of a wait is scaled by a measure of the machine ([Deadline]); [Context] and the
// waits of a [Child] scale theirs themselves.
//
// A package that uses it has this test main:
//
//	func TestMain(m *testing.M) { rdmatest.Main(m, nil) }
//
// # Environment
//
//	WEFT_REQUIRE      capabilities, separated by commas, whose absence is a failure instead of a skip
//	WEFT_RDMA_DEVICE  the device that Device returns, where there are several
//	WEFT_SOAK         asks tests that have a long form for it
//	WEFT_TEST_CHILD   set by StartChild alone: the part that a child process plays
package rdmatest
