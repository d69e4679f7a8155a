package doctor_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/doctor"
	"github.com/weftrdma/weft/cmd/weft/internal/inventory"
	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/verbs"
)

// machine is a System that tests change.
type machine struct {
	files   fstest.MapFS
	open    error
	devices []inventory.Device
	err     error
}

// healthy is a machine on which everything is well.
func healthy() *machine {
	m := &machine{files: fstest.MapFS{}, devices: []inventory.Device{{Name: "rxe0", Ports: []inventory.Port{{
		Number: 1, State: "active", Active: true, LinkLayer: "Ethernet", ActiveMTU: 4096, MaxMTU: 4096, GIDs: []inventory.GID{
			{Type: "RoCE v2", GID: "fe80::1", NetDev: "eth0"},
			{Index: 1, Type: "RoCE v2", GID: "192.0.2.1", NetDev: "eth0", Chosen: true, Routable: true},
		},
	}}}}}
	for name, text := range map[string]string{
		"sys/module/ib_uverbs/refcnt":                   "0\n",
		"sys/module/rdma_rxe/refcnt":                    "0\n",
		"sys/class/infiniband/rxe0/ports/1/state":       "4: ACTIVE\n",
		"sys/class/infiniband_verbs/uverbs0/ibdev":      "rxe0\n",
		"sys/class/infiniband_verbs/abi_version":        "6\n",
		"sys/class/net/eth0/mtu":                        "9000\n",
		"proc/sys/kernel/osrelease":                     "6.1.0-57-amd64\n",
		"proc/self/limits":                              limits("8388608"),
		"proc/self/status":                              "Name:\tweft\nCapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n",
		"lib/modules/6.1.0-57-amd64/modules.dep":        "kernel/drivers/net/e1000.ko:\n",
		"lib/modules/6.1.0-57-amd64/modules.builtin":    "kernel/fs/ext4.ko\n",
		"lib/modules/6.1.0-57-amd64/kernel/placeholder": "",
	} {
		m.file(name, text)
	}
	return m
}

func limits(memlock string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max processes             7941                 7941                 processes \n" +
		fmt.Sprintf("Max locked memory         %-20s unlimited            bytes     \n", memlock)
}

func (m *machine) file(name, text string) { m.files[name] = &fstest.MapFile{Data: []byte(text)} }

// remove removes files below a folder.
func (m *machine) remove(dir string) {
	for name := range m.files {
		if strings.HasPrefix(name, dir) {
			delete(m.files, name)
		}
	}
}

func (m *machine) port() *inventory.Port { return &m.devices[0].Ports[0] }

func (m *machine) examine() []doctor.Finding {
	return doctor.System{
		Files:   m.files,
		Open:    func(string) error { return m.open },
		Devices: func() ([]inventory.Device, error) { return m.devices, m.err },
	}.Examine()
}

func TestHealthy(t *testing.T) {
	findings := healthy().examine()
	var checks []string
	for _, f := range findings {
		require.Equal(t, doctor.OK, f.Level, "%+v", f)
		require.Empty(t, f.Fix)
		checks = append(checks, f.Check)
	}
	require.Equal(t, []string{"library", "modules", "devices", "permissions", "port rxe0/1", "GID rxe0/1", "MTU rxe0/1",
		"memlock"}, checks)
	require.Zero(t, doctor.Count(findings, doctor.Broken))
	require.Equal(t, len(findings), doctor.Count(findings, doctor.OK))
}

// TestFindings breaks one thing at a time: it is found, with its fix, and nothing else is.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*machine)
		check  string
		level  doctor.Level
		text   string
		fix    string
	}{
		"no library": {func(m *machine) { m.devices, m.err = nil, fmt.Errorf("open: %w", verbs.ErrNoLibrary) },
			"library", doctor.Broken, "libibverbs is not available", "apt-get install libibverbs1 ibverbs-providers"},
		"no binding": {func(m *machine) { m.devices, m.err = nil, fmt.Errorf("devices: %w", errors.ErrUnsupported) },
			"library", doctor.Broken, "this program has no verbs", "without the tag noverbs"},
		"library fails": {func(m *machine) { m.devices, m.err = nil, fs.ErrPermission },
			"library", doctor.Broken, "cannot list devices: permission denied", "see what"},
		"no uverbs": {func(m *machine) { m.remove("sys/module/ib_uverbs") },
			"modules", doctor.Broken, "no ib_uverbs for this kernel", "linux-image-amd64"},
		"uverbs not loaded": {func(m *machine) {
			m.remove("sys/module/ib_uverbs")
			m.file("lib/modules/6.1.0-57-amd64/modules.dep", "kernel/drivers/infiniband/core/ib_uverbs.ko.xz: kernel/x.ko\n")
		}, "modules", doctor.Broken, "is not loaded", "modprobe ib_uverbs"},
		"not permitted": {func(m *machine) {
			m.open = &fs.PathError{Op: "open", Path: "/dev/infiniband/uverbs0", Err: fs.ErrPermission}
		},
			"permissions", doctor.Broken, "open /dev/infiniband/uverbs0: permission denied", "chmod 666 /dev/infiniband/uverbs0"},
		"no file": {func(m *machine) { m.open = fs.ErrNotExist },
			"permissions", doctor.Broken, "/dev/infiniband/uverbs0 is missing", "--device /dev/infiniband/uverbs0"},
		"no driver": {func(m *machine) { m.file("sys/class/infiniband/mlx5_0/node_type", "") },
			"driver", doctor.Broken, "the device mlx5_0, libibverbs does not show it", "ibverbs-providers"},
		"device fails": {func(m *machine) { m.devices[0] = inventory.Device{Name: "rxe0", Error: "open rxe0: no memory"} },
			"device rxe0", doctor.Broken, "open rxe0: no memory", "see"},
		"port down": {func(m *machine) { m.port().Active, m.port().State = false, "down" },
			"port rxe0/1", doctor.Broken, "it is down", "ip link set dev eth0 up"},
		"port down without GIDs": {func(m *machine) { m.port().Active, m.port().GIDs = false, nil },
			"port rxe0/1", doctor.Broken, "it is active", "rdma link"},
		"InfiniBand port down": {func(m *machine) { m.port().Active, m.port().LinkLayer = false, "InfiniBand" },
			"port rxe0/1", doctor.Broken, "", "subnet manager"},
		"second port down": {func(m *machine) {
			m.devices[0].Ports = append(m.devices[0].Ports, inventory.Port{Number: 2, State: "down"})
		}, "port rxe0/2", doctor.Warning, "it is down", "look at the cable"},
		"no GID": {func(m *machine) { m.port().GIDs, m.port().NoGID = nil, "port 1: no usable GID" },
			"GID rxe0/1", doctor.Broken, "no usable GID", "ip address add"},
		"link-local": {func(m *machine) { m.port().GIDs[1].Routable = false },
			"GID rxe0/1", doctor.Warning, "only a link-local address", "ip address add ADDRESS/BITS dev eth0"},
		"RoCE v1": {func(m *machine) { m.port().GIDs[1].Type = "RoCE v1" },
			"GID rxe0/1", doctor.Warning, "only RoCE v1", "IP address"},
		"small MTU": {func(m *machine) {
			m.port().ActiveMTU = 1024
			m.file("sys/class/net/eth0/mtu", "1500\n")
		}, "MTU rxe0/1", doctor.Warning, "carry 1024 bytes where 4096 are possible, since the MTU of eth0 is 1500",
			"ip link set dev eth0 mtu 4180"},
		"too small MTU": {func(m *machine) { m.file("sys/class/net/eth0/mtu", "1500\n") },
			"MTU rxe0/1", doctor.Broken, "packets of 4096 bytes and their headers do not fit", "ip link set dev eth0 mtu 4180"},
		"unknown MTU": {func(m *machine) { m.remove("sys/class/net") }, "MTU rxe0/1", doctor.Warning, "cannot be read", "ip link show"},
		"memlock": {func(m *machine) { m.file("proc/self/limits", limits("65536")) },
			"memlock", doctor.Broken, "is 65536 bytes, a file transfer takes 8388608", "ulimit -l unlimited"},
		"unknown memlock": {func(m *machine) { m.remove("proc/self/limits") }, "memlock", doctor.Warning, "cannot be read", "ulimit"},
	} {
		t.Run(name, func(t *testing.T) {
			m := healthy()
			c.damage(m)
			bad := slices.DeleteFunc(m.examine(), func(f doctor.Finding) bool { return f.Level == doctor.OK })
			require.Len(t, bad, 1)
			require.Equal(t, c.check, bad[0].Check)
			require.Equal(t, c.level, bad[0].Level)
			require.Contains(t, bad[0].Text, c.text)
			require.Contains(t, bad[0].Fix, c.fix)
		})
	}
}

// TestNoDevice: what to do depends on whether there is rdma_rxe.
func TestNoDevice(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machine)
		fix    string
	}{
		"loaded": {func(*machine) {}, "or make a soft-RoCE device: rdma link add"},
		"built in": {func(m *machine) {
			m.remove("sys/module/rdma_rxe")
			m.file("lib/modules/6.1.0-57-amd64/modules.builtin", "kernel/rdma-rxe.ko\n")
		}, "soft-RoCE device: rdma link add"},
		"loadable": {func(m *machine) {
			m.remove("sys/module/rdma_rxe")
			m.file("lib/modules/6.1.0-57-amd64/modules.dep", "a/rdma_rxe.ko: b.ko\n")
		}, "modprobe rdma_rxe, then rdma link add"},
		"absent": {func(m *machine) { m.remove("sys/module/rdma_rxe") }, "this kernel has no rdma_rxe"},
	} {
		t.Run(name, func(t *testing.T) {
			m := healthy()
			m.devices = nil
			m.remove("sys/class/infiniband")
			c.change(m)
			bad := slices.DeleteFunc(m.examine(), func(f doctor.Finding) bool { return f.Level == doctor.OK })
			require.Len(t, bad, 1)
			require.Equal(t, doctor.Broken, bad[0].Level)
			require.Contains(t, bad[0].Fix, c.fix)
		})
	}
}

func TestMemlockThatDoesNotBind(t *testing.T) {
	m := healthy()
	m.file("proc/self/limits", limits("65536"))
	m.file("proc/self/status", "Name:\tweft\nCapEff:\t0000000000004000\n")
	require.Zero(t, doctor.Count(m.examine(), doctor.Broken))
	m = healthy()
	m.file("proc/self/limits", limits("unlimited"))
	require.Zero(t, doctor.Count(m.examine(), doctor.Broken))
}

// TestThisSystem holds on every machine: it ends, and whatever is not well has a fix.
func TestThisSystem(t *testing.T) {
	findings := doctor.ThisSystem().Examine()
	require.NotEmpty(t, findings)
	for _, f := range findings {
		require.NotEmpty(t, f.Text)
		require.Equal(t, f.Level == doctor.OK, f.Fix == "", "%+v", f)
	}
}

// TestFabric breaks one thing at a time for a rail over libfabric.
func TestFabric(t *testing.T) {
	providers := []inventory.Provider{{Name: "tcp"}}
	for name, c := range map[string]struct {
		provider string
		err      error
		want     string // the check that is not OK
		level    doctor.Level
	}{
		"healthy":        {provider: "tcp"},
		"no library":     {provider: "tcp", err: fabric.ErrNoLibrary, want: "library", level: doctor.Broken},
		"left out":       {provider: "tcp", err: errors.ErrUnsupported, want: "library", level: doctor.Broken},
		"library is ill": {provider: "tcp", err: errors.New("ill"), want: "library", level: doctor.Broken},
		"no provider":    {provider: "efa", want: "provider", level: doctor.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			findings := doctor.System{Providers: func() ([]inventory.Provider, error) { return providers, c.err }}.ExamineFabric(c.provider)
			require.NotEmpty(t, findings)
			for _, f := range findings {
				if f.Check == c.want {
					require.Equal(t, c.level, f.Level, "%+v", f)
					require.NotEmpty(t, f.Fix)
				} else {
					require.Equal(t, doctor.OK, f.Level, "%+v", f)
				}
			}
		})
	}
}
