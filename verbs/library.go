package verbs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// The releases of rdma-core from which on rxe's provider polls completions field by field, and builds work requests, as the
// interface says. Before, ending a poll unlocked the queue twice, and a request's second entry or inline buffer was lost.
const (
	soundPolling = 61
	soundPosting = 64
)

// rxeVendor is the vendor identifier of soft-RoCE devices; older kernels' have 0.
const rxeVendor = 0xffffff

// sound refuses what a device's provider is known to do wrong before that release of rdma-core.
func (c *Context) sound(what string, since int) error {
	if id := c.attr.VendorID; id != rxeVendor && id != 0 || c.attr.VendorPartID != 0 {
		return nil
	}
	if release := libraryRelease(); release < since {
		return fmt.Errorf("verbs: %s of %s: the soft-RoCE provider is defective before rdma-core %d, this is %s: %w", what, c.name,
			since, releaseText(release), errors.ErrUnsupported)
	}
	return nil
}

func releaseText(release int) string {
	if release == 0 {
		return "an unknown release"
	}
	return strconv.Itoa(release)
}

// libraryRelease is the release of rdma-core that libibverbs is of; 0 if its file does not tell.
var libraryRelease = sync.OnceValue(func() int {
	file, err := filepath.EvalSymlinks(cLibraryPath())
	if err != nil {
		return 0
	}
	return releaseOf(filepath.Base(file))
})

// releaseOf finds the release in the name of the library's file, which is libibverbs.so.1.ABI.RELEASE.PATCH.
func releaseOf(file string) int {
	parts := strings.Split(strings.TrimPrefix(file, "libibverbs.so."), ".")
	if len(parts) < 3 {
		return 0
	}
	release, err := strconv.Atoi(parts[2])
	if err != nil {
		return 0
	}
	return release
}
