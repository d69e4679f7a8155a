package fabric_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
)

func TestWriteReachesThePeersMemory(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		for _, size := range []int{1, 8, 4096, 65536, 1 << 20} {
			from, to := a.buffer(size), b.buffer(size)
			copy(from.bytes, bytes.Repeat([]byte{1, 2, 3, 5, 7}, size/5+1))
			a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 7, NumSeg: 1, Flags: fabric.FlagDeliveryComplete}, 0)}, from.all(), b)
			a.complete(7, b)
			require.Equal(t, from.bytes, to.bytes)
		}
	})
}

func TestWriteWithDataTellsTheTarget(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		from, to := a.buffer(4096), b.buffer(4096)
		for i := range from.bytes {
			from.bytes[i] = byte(i)
		}
		a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 1, NumSeg: 1, Flags: fabric.FlagRemoteCQData, Data: 0xdeadbeef}, 0)}, from.all(), b)
		c := b.arrival(a)
		require.Equal(t, uint64(0xdeadbeef), c.Data)
		require.Equal(t, from.bytes, to.bytes)
		a.complete(1, b)
		// Without bytes.
		a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 2, Flags: fabric.FlagRemoteCQData, Data: 5}, 0)}, nil, b)
		require.Equal(t, uint64(5), b.arrival(a).Data)
		a.complete(2, b)
	})
}
