package verbs_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// ipv6Area is a header area as IPv6 fills it (RFC 8200, section 3), and with next header 27 a GRH (IBTA volume 1, 8.3).
func ipv6Area(source, destination netip.Addr, next byte, payload uint16) []byte {
	area := make([]byte, verbs.GRHSize)
	area[0], area[6], area[7] = 0x60, next, 64
	binary.BigEndian.PutUint16(area[4:], payload)
	from, to := source.As16(), destination.As16()
	copy(area[8:], from[:])
	copy(area[24:], to[:])
	return area
}

// ipv4Area is a header area as IPv4 fills it (RFC 791, section 3.1): what stood before the header stays.
func ipv4Area(before [20]byte, source, destination netip.Addr, id uint16, checksum bool) []byte {
	area := append(before[:], 0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 17, 0, 0)
	from, to := source.As4(), destination.As4()
	area = append(append(area, from[:]...), to[:]...)
	binary.BigEndian.PutUint16(area[24:], id)
	if checksum {
		binary.BigEndian.PutUint16(area[30:], ^onesSum(area[20:]))
	}
	return area
}

// onesSum is the one's complement sum of 16-bit words (RFC 1071).
func onesSum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		if sum += uint32(binary.BigEndian.Uint16(b)); sum > 0xffff {
			sum -= 0xffff
		}
	}
	return uint16(sum)
}

// sourceOf is what the area says of its sender, as text.
func sourceOf(area []byte) string {
	got, ok := verbs.SourceGID(&verbs.WC{Flags: verbs.WCGRH}, area)
	if !ok {
		return "none"
	}
	return got.String()
}

func TestSourceGID(t *testing.T) {
	addr := netip.MustParseAddr
	var zeros, garbage, stale [20]byte
	for i := range garbage {
		garbage[i] = 0x76
	}
	copy(stale[:], ipv6Area(addr("2001:db8::5"), addr("2001:db8::1"), 17, 40)) // what came into the buffer before
	a4, b4 := addr("10.9.0.2"), addr("10.9.0.1")
	// Bytes 20 to 39 of an IPv6 header look like an IPv4 one: before UDP with a wrong checksum, and with a right one, but not
	// before UDP.
	wrong := ipv6Area(addr("fd00::4500:3c"), addr("fd00:0:4011:1:0:0:102:304"), 17, 40)
	lookalike := ipv6Area(addr("fd00::4500:3c"), addr("fd00:0:4006::102:304"), 17, 40)
	binary.BigEndian.PutUint16(lookalike[30:], ^onesSum(lookalike[20:]))
	for name, tc := range map[string]struct {
		area []byte
		want string
	}{
		"IPv4 with its checksum":                {ipv4Area(zeros, a4, b4, 1, true), "10.9.0.2"},
		"IPv4 without":                          {ipv4Area(zeros, a4, b4, 1, false), "10.9.0.2"},
		"IPv4 after garbage":                    {ipv4Area(garbage, a4, b4, 1, true), "10.9.0.2"},
		"IPv4 without a checksum after garbage": {ipv4Area(garbage, a4, b4, 1, false), "10.9.0.2"},
		"IPv4 after what is left of IPv6":       {ipv4Area(stale, a4, b4, 1, true), "10.9.0.2"},
		"IPv6":                                  {ipv6Area(addr("2001:db8::2"), addr("2001:db8::1"), 17, 40), "2001:db8::2"},
		"GRH":                                   {ipv6Area(addr("fe80::2"), addr("fe80::1"), 27, 40), "fe80::2"},
		"IPv6 from an address with 0x45":        {ipv6Area(addr("fd00::4500:1"), addr("fd00::2"), 17, 40), "fd00::4500:1"},
		"and 17 where UDP would be":             {wrong, "fd00::4500:3c"},
		"and what could be a checksum":          {lookalike, "fd00::4500:3c"},
		"a mapped address in an IPv6 header":    {ipv6Area(addr("::ffff:192.0.2.2"), addr("::ffff:192.0.2.1"), 17, 40), "192.0.2.2"},
		"neither":                               {make([]byte, verbs.GRHSize), "none"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, sourceOf(tc.area))
			_, ok := verbs.SourceGID(&verbs.WC{}, tc.area)
			require.False(t, ok, "the completion says that there is no header")
			require.Equal(t, "none", sourceOf(tc.area[:39]))
		})
	}
}

// Two headers of every family, with any addresses: the one that was sent is found again.
func TestSourceGIDOfAnyAddresses(t *testing.T) {
	rng := rand.New(rand.NewPCG(rdmatest.Seed(t), 0))
	for range 200000 {
		var area [48]byte
		for i := range area {
			area[i] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 {
			area[24] = 0x45 // the byte of the source that lies where an IPv4 header would begin
		}
		checkSource(t, area[:], rng.IntN(2) == 0)
	}
}

// checkSource makes headers of 48 bytes and checks what is found in them.
func checkSource(t *testing.T, b []byte, checksum bool) {
	before := [20]byte(b)
	from4, to4 := netip.AddrFrom4([4]byte(b[20:])), netip.AddrFrom4([4]byte(b[24:]))
	if checksum || before[0]>>4 != 6 {
		area := ipv4Area(before, from4, to4, binary.BigEndian.Uint16(b[28:]), checksum)
		if got := sourceOf(area); got != from4.String() {
			t.Fatalf("IPv4 % x: %s, not %s", area, got, from4)
		}
	}
	from6, to6 := netip.AddrFrom16([16]byte(b[12:])), netip.AddrFrom16([16]byte(b[28:]))
	area := ipv6Area(from6, to6, 17, binary.BigEndian.Uint16(b))
	want := from6.Unmap()
	if area[20] == 0x45 && area[29] == 17 && onesSum(area[20:]) == 0xffff {
		want = netip.AddrFrom4([4]byte(area[32:])) // nothing tells it from an IPv4 header after the start of an IPv6 one
	}
	if got := sourceOf(area); got != want.String() {
		t.Fatalf("IPv6 % x: %s, not %s", area, got, want)
	}
}

func FuzzSourceGID(f *testing.F) {
	f.Add(make([]byte, 48), true)
	f.Add([]byte("\x60\x00\x00\x00\x00\x28\x11\x40\x00\x00\x00\x00\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x45\x00\x00\x01"+
		"\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02zzzz"), false)
	f.Fuzz(func(t *testing.T, b []byte, checksum bool) {
		sourceOf(b)
		if len(b) >= 48 {
			checkSource(t, b, checksum)
		}
	})
}
