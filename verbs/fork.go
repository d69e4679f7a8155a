package verbs

import "fmt"

// ForkStatus is what becomes of registered memory when this process forks (enum ibv_fork_status).
type ForkStatus int

// Whether a fork is safe. It is with ForkEnabled and ForkUnneeded.
const (
	ForkUnknown  ForkStatus = iota - 1 // the library is too old to tell
	ForkDisabled                       // a child's first write may take pages away from the parent's registrations
	ForkEnabled                        // registered pages are kept from children, by madvise(2)
	ForkUnneeded                       // the kernel copies registered pages at the fork
)

func (s ForkStatus) String() string {
	if s == ForkUnknown {
		return "unknown"
	}
	return name(uint32(s), "not safe", "safe, by keeping registered pages from children", "safe, by the kernel")
}

// QueryFork asks whether processes may be started while memory is registered. On a kernel that answers [ForkUnneeded] there
// is nothing to do; [ForkInit] would only split the address space into pieces, of which the kernel allows 65530.
//
// Implements:
//
//	enum ibv_fork_status ibv_is_fork_initialized(void)
func QueryFork() (ForkStatus, error) {
	status, err := cForkStatus()
	return ForkStatus(status), err
}

// ForkInit makes the library keep registered pages from child processes. It does nothing where that is not needed, and must
// come before the first registration. Whole pages are kept back: what else lies in the first or last page of a region is
// missing in a child too, so give registered memory pages of its own. Memory of huge pages then needs
// RDMAV_HUGEPAGES_SAFE=1 in the environment.
//
// Implements:
//
//	int ibv_fork_init(void)
func ForkInit() error {
	if err := load(); err != nil {
		return err
	}
	if err := cForkInit(); err != nil {
		return fmt.Errorf("set up fork safety: call it before memory is registered: %w", err)
	}
	return nil
}
