package rdmatest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
)

// fakeHost has the devices whose ports' states are given, in the layout of /sys/class/infiniband.
func fakeHost(t *testing.T, devices map[string][]string) host {
	t.Helper()
	root := t.TempDir()
	for device, states := range devices {
		for i, state := range states {
			port := filepath.Join(root, device, "ports", string(rune('1'+i)))
			require.NoError(t, os.MkdirAll(port, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(port, "state"), []byte(state+"\n"), 0o644))
		}
	}
	return host{infiniband: root}
}

func TestActiveDevices(t *testing.T) {
	for name, c := range map[string]struct {
		devices map[string][]string
		active  []string
	}{
		"no devices":        {nil, nil},
		"sorted":            {map[string][]string{"b": {"4: ACTIVE"}, "a": {"4: ACTIVE"}}, []string{"a", "b"}},
		"second port":       {map[string][]string{"mlx4_0": {"1: DOWN", "4: ACTIVE"}}, []string{"mlx4_0"}},
		"both ports":        {map[string][]string{"mlx4_0": {"4: ACTIVE", "4: ACTIVE"}}, []string{"mlx4_0"}},
		"down":              {map[string][]string{"rxe0": {"1: DOWN"}}, nil},
		"not yet active":    {map[string][]string{"rxe0": {"2: INIT"}, "rxe1": {"3: ARMED"}}, nil},
		"active, but defer": {map[string][]string{"rxe0": {"5: ACTIVE_DEFER"}}, nil},
		"no ports":          {map[string][]string{"rxe0": {}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.active, fakeHost(t, c.devices).activeDevices())
		})
	}
	require.Empty(t, host{infiniband: filepath.Join(t.TempDir(), "absent")}.activeDevices())
}

func TestRequire(t *testing.T) {
	with, without := fakeHost(t, map[string][]string{"rxe0": {"4: ACTIVE"}}), fakeHost(t, nil)
	required := func(h host, list string) host { h.required = list; return h }
	for name, c := range map[string]struct {
		host       host
		capability Capability
		skipped    string // part of the message
		fatal      string
	}{
		"present":                 {with, Verbs, "", ""},
		"present and required":    {required(with, "verbs"), Verbs, "", ""},
		"absent":                  {without, Verbs, "capability verbs is absent: no device under ", ""},
		"absent, another matters": {required(without, "verbsx,,x"), Verbs, "capability verbs is absent", ""},
		"absent and required":     {required(without, "verbs"), Verbs, "", "verbs, which WEFT_REQUIRE lists, is"},
		"required among others":   {required(without, "gpu, verbs"), Verbs, "", "verbs, which WEFT_REQUIRE lists"},
		"unknown":                 {with, "verb", "", `unknown capability "verb"; known: ["verbs" "fabric"]`},
	} {
		t.Run(name, func(t *testing.T) {
			var f fakeT
			f.do(func(t testing.TB) { c.host.require(t, c.capability) })
			requirePart(t, c.skipped, f.skipped)
			requirePart(t, c.fatal, f.fatal)
		})
	}
}

// requirePart wants the text empty where the part is.
func requirePart(t *testing.T, part, text string) {
	t.Helper()
	if part == "" {
		require.Empty(t, text)
	}
	require.Contains(t, text, part)
}

func TestDevice(t *testing.T) {
	with := fakeHost(t, map[string][]string{"rxe0": {"1: DOWN"}, "rxe1": {"4: ACTIVE"}, "rxe2": {"4: ACTIVE"}})
	named := func(name string) host { return host{infiniband: with.infiniband, named: name} }
	for name, c := range map[string]struct {
		host    host
		device  string
		skipped string
		fatal   string
	}{
		"first active": {with, "rxe1", "", ""},
		"named":        {named("rxe2"), "rxe2", "", ""},
		"named, down":  {named("rxe0"), "", "", `WEFT_RDMA_DEVICE=rxe0 has no active port`},
		"named, gone":  {named("mlx5_0"), "", "", `active: ["rxe1" "rxe2"]`},
		"none":         {fakeHost(t, nil), "", "capability verbs is absent", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var f fakeT
			var device string
			f.do(func(t testing.TB) { device = c.host.device(t) })
			require.Equal(t, c.device, device)
			requirePart(t, c.skipped, f.skipped)
			requirePart(t, c.fatal, f.fatal)
		})
	}
}

func TestThisHostReadsTheEnvironment(t *testing.T) {
	t.Setenv(requireVar, "verbs")
	t.Setenv(deviceVar, "rxe7")
	require.Equal(t, host{infiniband: "/sys/class/infiniband", required: "verbs", named: "rxe7"}, thisHost())
}

// TestThisHost holds with and without a device: what Require and Device find out agrees.
func TestThisHost(t *testing.T) {
	var required, found fakeT
	var device string
	required.do(func(t testing.TB) { Require(t, Verbs) })
	found.do(func(t testing.TB) { device = Device(t) })
	require.Equal(t, required.skipped == "" && required.fatal == "", device != "")
}

// TestFabric holds with and without libfabric.
func TestFabric(t *testing.T) {
	var f fakeT
	f.do(func(t testing.TB) { host{required: "fabric"}.require(t, Fabric) })
	_, err := fabric.LibraryVersion()
	if err == nil {
		require.Empty(t, f.fatal)
		return
	}
	require.Contains(t, f.fatal, "capability fabric, which WEFT_REQUIRE lists, is absent: "+err.Error())
}
