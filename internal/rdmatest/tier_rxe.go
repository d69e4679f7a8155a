//go:build rxe

package rdmatest

// DeviceTier: see tier.go.
const DeviceTier = true
