package fabric

import "encoding/binary"

// Option is a setting of an endpoint (FI_OPT_ of rdma/fi_endpoint.h, or a provider's own, which are negative).
type Option struct {
	Name  int
	Value []byte
}

// The names of options; those after OptHMEMP2P are libfabric's from 1.19 and 2.0 on.
const (
	OptCMDataSize                = 1 // how much goes along with a connection request; to be read
	OptSendBufSize               = 4
	OptRecvBufSize               = 5
	OptTxSize                    = 6
	OptRxSize                    = 7
	OptHMEMP2P                   = 8
	OptCUDAAPIPermitted          = 10
	OptSharedMemoryPermitted     = 11
	OptMaxMsgSize                = 12
	OptMaxTaggedSize             = 13
	OptMaxRMASize                = 14
	OptMaxAtomicSize             = 15
	OptInjectMsgSize             = 16
	OptInjectTaggedSize          = 17
	OptInjectRMASize             = 18
	OptInjectAtomicSize          = 19
	optMinMultiRecv          int = 0
)

// SizeOption is an option whose value is a size_t.
func SizeOption(name, value int) Option {
	return Option{name, binary.NativeEndian.AppendUint64(nil, uint64(value))}
}

// BoolOption is an option whose value is a bool.
func BoolOption(name int, value bool) Option {
	if value {
		return Option{name, []byte{1}}
	}
	return Option{name, []byte{0}}
}

// SetOption sets an option of the endpoint. Many can be set only before it is enabled: give these in [EndpointConfig].
//
// Implements:
//
//	int fi_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
func (ep *Endpoint) SetOption(option Option) error {
	if err := ep.life.Enter(); err != nil {
		return err
	}
	defer ep.life.Exit()
	if len(option.Value) == 0 {
		return invalid("set option %d: its value is empty", option.Name)
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return cSetOption(ep.raw, option.Name, option.Value)
}

// Option reads an option of the endpoint, of up to size bytes.
//
// Implements:
//
//	int fi_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
func (ep *Endpoint) Option(name, size int) ([]byte, error) {
	if err := ep.life.Enter(); err != nil {
		return nil, err
	}
	defer ep.life.Exit()
	if size < 1 || size > 4096 {
		return nil, invalid("read option %d of %d bytes: 1 to 4096 are possible", name, size)
	}
	return cGetOption(ep.raw, name, size)
}

// SizeOption reads an option whose value is a size_t.
func (ep *Endpoint) SizeOption(name int) (uint64, error) {
	value, err := ep.Option(name, 8)
	if err == nil && len(value) != 8 {
		err = invalid("read option %d: it has %d bytes, a size has 8", name, len(value))
	}
	if err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint64(value), nil
}
