package verbs

import "fmt"

// MTU is a path MTU in bytes of payload: 256, 512, 1024, 2048 or 4096.
type MTU uint32

// Code is the MTU's number in the verbs interface and on the wire (enum ibv_mtu): 1 for 256 up to 5 for 4096; 0 for a
// size that is no path MTU.
func (m MTU) Code() uint8 {
	for code := uint8(1); code <= 5; code++ {
		if MTUFromCode(code) == m {
			return code
		}
	}
	return 0
}

// MTUFromCode is the reverse of [MTU.Code]; 0 for a number that means no path MTU.
func MTUFromCode(code uint8) MTU {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}

func (m MTU) String() string { return fmt.Sprintf("%d bytes", uint32(m)) }
