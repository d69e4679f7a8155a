package rdmatest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftrdma/weft/fabric"
)

const (
	requireVar = "WEFT_REQUIRE"
	deviceVar  = "WEFT_RDMA_DEVICE"
)

// Capability is something that a machine may lack and a test needs.
type Capability string

// Verbs is an RDMA device that has an active port.
const Verbs Capability = "verbs"

// Fabric is a libfabric that can be loaded: its providers tcp and shm need no device.
const Fabric Capability = "fabric"

// capabilities are all that Require and WEFT_REQUIRE know.
var capabilities = []Capability{Verbs, Fabric}

// Require skips the test by the capability's name where the machine lacks it. Where WEFT_REQUIRE lists the capability
// it fails the test instead: a tier that exists to run such tests cannot pass by skipping them.
func Require(t testing.TB, c Capability) {
	t.Helper()
	thisHost().require(t, c)
}

// Device returns the name of the RDMA device to test on: the one that WEFT_RDMA_DEVICE names, which has to be active,
// or else the first active one. Without any it skips or fails as Require(t, Verbs) does.
func Device(t testing.TB) string {
	t.Helper()
	return thisHost().device(t)
}

// host is what Require and Device look at.
type host struct {
	infiniband string // the folder that lists RDMA devices
	required   string // WEFT_REQUIRE
	named      string // WEFT_RDMA_DEVICE
}

func thisHost() host {
	return host{
		infiniband: "/sys/class/infiniband",
		required:   os.Getenv(requireVar),
		named:      os.Getenv(deviceVar),
	}
}

func (h host) require(t testing.TB, c Capability) {
	t.Helper()
	lack, err := h.lack(c)
	switch {
	case err != nil:
		t.Fatal(err)
	case lack != "" && slices.Contains(h.requiredCapabilities(), c):
		t.Fatalf("capability %s, which %s lists, is absent: %s", c, requireVar, lack)
	case lack != "":
		t.Skipf("capability %s is absent: %s", c, lack)
	}
}

func (h host) device(t testing.TB) string {
	t.Helper()
	active := h.activeDevices()
	if h.named != "" {
		if !slices.Contains(active, h.named) {
			t.Fatalf("%s=%s has no active port under %s; active: %q", deviceVar, h.named, h.infiniband, active)
		}
		return h.named
	}
	h.require(t, Verbs)
	return active[0]
}

// lack tells why the host lacks c, or returns "" when it does not.
func (h host) lack(c Capability) (string, error) {
	switch c {
	case Verbs:
		if len(h.activeDevices()) == 0 {
			return "no device under " + h.infiniband + " has a port in state ACTIVE", nil
		}
		return "", nil
	case Fabric:
		if _, err := fabric.LibraryVersion(); err != nil {
			return err.Error(), nil
		}
		return "", nil
	}
	return "", fmt.Errorf("unknown capability %q; known: %q", c, capabilities)
}

// checkRequired refuses a WEFT_REQUIRE that names no capability: misspelt, it would let a tier pass by skipping.
func (h host) checkRequired() error {
	for _, c := range h.requiredCapabilities() {
		if !slices.Contains(capabilities, c) {
			return fmt.Errorf("%s lists unknown capability %q; known: %q", requireVar, c, capabilities)
		}
	}
	return nil
}

func (h host) requiredCapabilities() []Capability {
	var listed []Capability
	for name := range strings.SplitSeq(h.required, ",") {
		if name = strings.TrimSpace(name); name != "" {
			listed = append(listed, Capability(name))
		}
	}
	return listed
}

// activeDevices returns the names, sorted, of the devices with a port whose state file says ACTIVE ("4: ACTIVE").
func (h host) activeDevices() []string {
	states, _ := filepath.Glob(filepath.Join(h.infiniband, "*", "ports", "*", "state")) // the pattern is well-formed
	var names []string
	for _, file := range states {
		state, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(state)), ": ACTIVE") {
			continue // a device that vanished meanwhile is not active
		}
		names = append(names, filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(file)))))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
