package doctor

import (
	"errors"
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
	return e.findings
}

// provider looks for a provider.
func (e *examination) provider(name string, providers []inventory.Provider) {
	var names []string
	for _, p := range providers {
		names = append(names, p.Name)
	}
	if !slices.Contains(names, name) {
		e.found(Broken, "provider", "name one of those that are there", "libfabric has no provider %q that can be a rail; it has %s", name,
			strings.Join(names, ", "))
		return
	}
	e.ok("provider", "libfabric has %s", name)
}
