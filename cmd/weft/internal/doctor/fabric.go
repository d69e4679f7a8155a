package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/weftrdma/weft/cmd/weft/internal/inventory"
	"github.com/weftrdma/weft/fabric"
)

// ExamineFabric looks at everything that a rail over the provider of libfabric needs, in the order in which it has to work.
func (s System) ExamineFabric(provider string) []Finding {
	e := &examination{System: s}
	providers, err := s.Providers()
	switch {
	case errors.Is(err, fabric.ErrNoLibrary):
		e.found(Broken, "library", "install it: apt-get install libfabric1 (elsewhere libfabric)", "%v", err)
	case errors.Is(err, errors.ErrUnsupported):
		e.found(Broken, "library", "build it on Linux with cgo and without the tag nofabric", "this program has no libfabric: %v", err)
	case err != nil:
		e.found(Broken, "library", "see what the library says", "libfabric cannot list providers: %v", err)
	default:
		e.ok("library", "libfabric can be used")
		e.provider(provider, providers)
	}
	if provider == "shm" {
		e.sharedMemory()
	}
	return e.findings
}

// provider looks for a provider, which may be named by its first layer: "tcp" for "tcp;ofi_rxm".
func (e *examination) provider(name string, providers []inventory.Provider) {
	var names []string
	for _, p := range providers {
		names = append(names, p.Name)
	}
	if !slices.ContainsFunc(names, func(n string) bool { return n == name || strings.HasPrefix(n, name+";") }) {
		e.found(Broken, "provider", "name one of those that are there", "libfabric has no provider %q that can be a rail; it has %s", name,
			strings.Join(names, ", "))
		return
	}
	e.ok("provider", "libfabric has %s", name)
}

// sharedMemory looks at what shm copies by: segments in /dev/shm, and the memory of other processes of the user.
func (e *examination) sharedMemory() {
	if e.exists("dev/shm") {
		e.ok("shared memory", "/dev/shm is there")
	} else {
		e.found(Broken, "shared memory", "mount -t tmpfs tmpfs /dev/shm; for a container, --ipc=host or --shm-size", "/dev/shm is missing")
	}
	scope, err := fs.ReadFile(e.Files, "proc/sys/kernel/yama/ptrace_scope")
	switch text := strings.TrimSpace(string(scope)); {
	case err != nil || text == "0":
		e.ok("copies between processes", "processes of one user may copy from one another")
	default:
		e.found(Warning, "copies between processes", "sysctl kernel.yama.ptrace_scope=0", "%s", fmt.Sprintf("kernel.yama.ptrace_scope is "+
			"%s: a process copies only from its own children, and large operations go through /dev/shm, or fail", text))
	}
}
