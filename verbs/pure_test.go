package verbs_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

func gid(t *testing.T, addr string) verbs.GID {
	t.Helper()
	return verbs.GID(netip.MustParseAddr(addr).As16())
}

func TestSelectGID(t *testing.T) {
	entry := func(index int, typ verbs.GIDType, addr string) verbs.GIDEntry {
		return verbs.GIDEntry{GID: gid(t, addr), Port: 1, Index: index, Type: typ, NetDev: "eth0"}
	}
	linkLocal := entry(0, verbs.GIDTypeRoCEv2, "fe80::1")
	v1 := entry(1, verbs.GIDTypeRoCEv1, "192.0.2.1") // mapped, but not v2
	global := entry(2, verbs.GIDTypeRoCEv2, "2001:db8::1")
	private := entry(3, verbs.GIDTypeRoCEv2, "10.9.0.1")
	public := entry(4, verbs.GIDTypeRoCEv2, "192.0.2.1")
	linkLocal4 := entry(5, verbs.GIDTypeRoCEv2, "169.254.1.1")
	empty := entry(6, verbs.GIDTypeRoCEv2, "::")
	ib := entry(7, verbs.GIDTypeIB, "fe80::2")
	otherPort := public
	otherPort.Port = 2

	for name, tc := range map[string]struct {
		table []verbs.GIDEntry
		want  verbs.GIDEntry
	}{
		"v2 IPv4 before all":                   {[]verbs.GIDEntry{linkLocal, v1, global, public}, public},
		"private as good as public":            {[]verbs.GIDEntry{public, private}, private},
		"v2 global IPv6 next":                  {[]verbs.GIDEntry{linkLocal, v1, global}, global},
		"v2 link-local next":                   {[]verbs.GIDEntry{v1, linkLocal}, linkLocal},
		"IPv4 link-local is no better":         {[]verbs.GIDEntry{global, linkLocal4}, global},
		"v1 at last":                           {[]verbs.GIDEntry{empty, v1}, v1},
		"InfiniBand":                           {[]verbs.GIDEntry{empty, ib}, ib},
		"entries of another port do not count": {[]verbs.GIDEntry{otherPort, linkLocal}, linkLocal},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := verbs.SelectGID(tc.table, 1)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}

	_, err := verbs.SelectGID([]verbs.GIDEntry{empty, otherPort}, 1)
	require.ErrorIs(t, err, verbs.ErrNoUsableGID)
	require.ErrorContains(t, err, "192.0.2.1") // the table is in the text
}

func TestMTUCodes(t *testing.T) {
	for code, mtu := range map[uint8]verbs.MTU{0: 0, 1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096} {
		require.Equal(t, mtu, verbs.MTUFromCode(code))
		require.Equal(t, code, mtu.Code())
	}
	require.Zero(t, verbs.MTUFromCode(6))
	require.Zero(t, verbs.MTU(1500).Code())
}

func TestTimeoutCode(t *testing.T) {
	for d, code := range map[time.Duration]uint8{
		1: 1, 8192 * time.Nanosecond: 1, 8193 * time.Nanosecond: 2, 67 * time.Millisecond: 14, 68 * time.Millisecond: 15,
		time.Second: 18, time.Hour: 30, 3 * time.Hour: 31,
	} {
		require.Equal(t, code, verbs.TimeoutCode(d), "%v", d)
	}
}

func TestRNRTimerCode(t *testing.T) {
	for d, code := range map[time.Duration]uint8{
		1: 1, 10 * time.Microsecond: 1, 11 * time.Microsecond: 2, 640 * time.Microsecond: 12,
		491520 * time.Microsecond: 31, 491521 * time.Microsecond: 0, time.Hour: 0,
	} {
		require.Equal(t, code, verbs.RNRTimerCode(d), "%v", d)
	}
}

func TestCompletionError(t *testing.T) {
	require.NoError(t, (&verbs.WC{}).Err())
	err := (&verbs.WC{ID: 7, QPN: 9, Status: verbs.WCRetryExceeded, VendorErr: 0x81}).Err()
	require.ErrorIs(t, err, verbs.WCRetryExceeded)
	require.NotErrorIs(t, err, verbs.ErrFlushed)
	require.EqualError(t, err,
		"work request 7 of QP 9: transport retry counter exceeded: the peer does not answer (vendor error 0x81)")
	require.ErrorIs(t, (&verbs.WC{Status: verbs.WCFlushed}).Err(), verbs.ErrFlushed)
	require.Equal(t, "99", verbs.WCStatus(99).Error())
}

// median of samples, which it sorts.
func median(samples []time.Duration) time.Duration {
	slices.Sort(samples)
	return samples[len(samples)/2]
}
