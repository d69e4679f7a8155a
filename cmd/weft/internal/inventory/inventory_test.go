package inventory_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/inventory"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

func TestMain(m *testing.M) { rdmatest.Main(m, nil) }

func TestFindLibrary(t *testing.T) {
	const maps = `00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/weft
7f0000000000-7f0000100000 rw-p 00000000 00:00 0
7f1000000000-7f1000100000 r-xp 00000000 08:02 1 /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so
7f1000000000-7f1000100000 r-xp 00000000 08:02 1 /opt/a b/libibverbs.so.1.14.44.0
`
	path, version := inventory.FindLibrary(maps, "libibverbs")
	require.Equal(t, "/opt/a b/libibverbs.so.1.14.44.0", path)
	require.Equal(t, "1.14.44.0", version)
	path, version = inventory.FindLibrary(maps, "libfabric")
	require.Empty(t, path+version)
}

func gid(address string) verbs.GID { return netip.MustParseAddr(address).As16() }

func TestNewPort(t *testing.T) {
	table := []verbs.GIDEntry{
		{GID: gid("fe80::1"), Port: 1, Type: verbs.GIDTypeRoCEv2, NetDev: "eth0"},
		{GID: gid("192.0.2.1"), Port: 1, Index: 1, Type: verbs.GIDTypeRoCEv2, NetDev: "eth0"},
		{GID: gid("192.0.2.2"), Port: 2, Type: verbs.GIDTypeRoCEv2, NetDev: "eth1"},
	}
	attr := verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.LinkLayerEthernet, ActiveMTU: 1024, MaxMTU: 4096}
	p := inventory.NewPort(1, attr, table)
	require.True(t, p.Active)
	require.Equal(t, 1024, p.ActiveMTU)
	require.Equal(t, []inventory.GID{
		{Type: "RoCE v2", GID: "fe80::1", NetDev: "eth0"},
		{Index: 1, Type: "RoCE v2", GID: "192.0.2.1", NetDev: "eth0", Chosen: true, Routable: true},
	}, p.GIDs)
	require.Empty(t, p.NoGID)

	p = inventory.NewPort(3, verbs.PortAttr{State: verbs.PortDown}, table)
	require.False(t, p.Active)
	require.Empty(t, p.GIDs)
	require.Contains(t, p.NoGID, "no usable GID")
}

func TestVerbsThatAreMissing(t *testing.T) {
	for _, err := range []error{verbs.ErrNoLibrary, errors.ErrUnsupported} {
		require.Equal(t, inventory.Library{Name: "libibverbs", Error: err.Error()}, inventory.Verbs(err))
	}
}

// TestDevice compares the device with what its objects say.
func TestDevice(t *testing.T) {
	name := rdmatest.Device(t)
	devices, err := inventory.Devices()
	require.NoError(t, err)
	require.NotEmpty(t, inventory.Verbs(err).Path)
	require.NotEmpty(t, inventory.Verbs(err).Version)
	for _, d := range devices {
		if d.Name != name {
			continue
		}
		require.Empty(t, d.Error)
		require.NotEmpty(t, d.Ports)
		require.Positive(t, d.Limits.MaxQP)
		require.Positive(t, d.Limits.MaxMRSize)
		for _, p := range d.Ports {
			if p.Active {
				require.Positive(t, p.ActiveMTU)
				require.Empty(t, p.NoGID)
				return
			}
		}
		t.Fatalf("%s has no active port", name)
	}
	t.Fatalf("%s is not among %v", name, devices)
}
