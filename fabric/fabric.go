package fabric

import (
	"fmt"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// Fabric is a network that domains are on (struct fid_fabric): event queues and listeners belong to it.
type Fabric struct {
	life life.Object
	ptr  unsafe.Pointer // struct fid_fabric *
	told *Info          // what it was opened with, as libfabric has it
}

// OpenFabric opens the fabric of an info.
//
// Implements:
//
//	int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
func OpenFabric(info *Info) (*Fabric, error) {
	told, err := info.told()
	if err != nil {
		return nil, invalid("open fabric: %w", err)
	}
	ptr, err := cOpenFabric(info)
	if err != nil {
		return nil, fmt.Errorf("open fabric %s of %s: %w", info.Fabric, info.Provider, err)
	}
	f := &Fabric{ptr: ptr, told: told}
	if err := f.life.Init("fabric "+told.Fabric, nil, f.close); err != nil {
		return nil, closeAfter(err, f.close)
	}
	return f, nil
}

func (f *Fabric) close() error { return life.Refused(cCloseFabric(f.ptr)) }

// check returns what libfabric has in an info of this fabric, and an error for one of another fabric or provider.
func (f *Fabric) check(info *Info) (*Info, error) {
	told, err := info.told()
	if err != nil {
		return nil, err
	}
	if told.Fabric != f.told.Fabric || told.Provider != f.told.Provider {
		return nil, fmt.Errorf("the info is of fabric %s of %s, and this is fabric %s of %s", told.Fabric, told.Provider,
			f.told.Fabric, f.told.Provider)
	}
	return told, nil
}

// Close closes the fabric. It is refused with EBUSY while anything is open on it.
//
// Implements:
//
//	int fi_close(struct fid *fid)
func (f *Fabric) Close() error { return f.life.Close() }

// Name is the fabric's name.
func (f *Fabric) Name() string { return f.told.Fabric }

// Raw returns the struct fid_fabric pointer, for calls that this package does not have.
func (f *Fabric) Raw() unsafe.Pointer { return f.ptr }

func (f *Fabric) lifetime() *life.Object { return &f.life }
