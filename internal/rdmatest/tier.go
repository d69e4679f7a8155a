//go:build !rxe

package rdmatest

// DeviceTier tells that the tests of this binary are run where there is an RDMA device, beside those that were run without one: what
// needs none is left to these. It is the tag rxe, which also leaves out whole files of tests.
const DeviceTier = false
