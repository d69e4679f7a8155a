//go:build efa

package fabric

import "slices"

// orDefaultProvider is the provider where none is named: with this tag, that of EFA.
func orDefaultProvider(named string) string {
	if named == "" {
		return "efa"
	}
	return named
}

// preferred puts what goes straight to the device (the fabric efa-direct, from libfabric 2.2 on) before what libfabric's own
// protocol stands between.
func preferred(infos []*Info) []*Info {
	direct := func(i *Info) int {
		if i.Fabric == "efa-direct" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(infos, func(a, b *Info) int { return direct(a) - direct(b) })
	return infos
}

// The provider's own options (rdma/fi_ext.h). Those after OptEFARNRRetry are of libfabric 1.18 and later.
const (
	OptEFARNRRetry            = -(0xefa << 16)     // size_t: how often a message is sent again that has no receive; 7 is for ever
	OptEFAEmulatedRead        = OptEFARNRRetry + 1 // bool, to be read: whether reads are made of sends
	OptEFAEmulatedWrite       = OptEFARNRRetry + 2
	OptEFAEmulatedAtomics     = OptEFARNRRetry + 3
	OptEFAUseDeviceRDMA       = OptEFARNRRetry + 4 // bool
	OptEFASendRecvInOrder     = OptEFARNRRetry + 5 // bool: blocks of 128 bytes arrive in order
	OptEFAWriteInOrder        = OptEFARNRRetry + 6
	efaRNRRetryForEver    int = 7
)

// EFAOptions are the options of an endpoint of EFA that the engine opens: no shortcut through shared memory, so that all
// peers are reached in one way; no calls into CUDA, which would wait for its kernels; and, since a message that finds no
// receive is to be told apart from a peer that is gone by time alone, retries without end. Give them in [EndpointConfig].
func EFAOptions(library Version) []Option {
	options := []Option{SizeOption(OptEFARNRRetry, efaRNRRetryForEver)}
	if library.AtLeast(1, 19) {
		options = append(options, BoolOption(OptSharedMemoryPermitted, false), BoolOption(OptCUDAAPIPermitted, false))
	}
	return options
}
