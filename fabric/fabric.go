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
	name string
}

// OpenFabric opens the fabric of an info.
//
// Implements:
//
//	int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
func OpenFabric(info *Info) (*Fabric, error) {
	if info == nil {
		return nil, invalid("open fabric: no info")
	}
	ptr, err := cOpenFabric(info)
	if err != nil {
		return nil, fmt.Errorf("open fabric %s of %s: %w", info.Fabric, info.Provider, err)
	}
	f := &Fabric{ptr: ptr, name: info.Fabric}
	return f, f.life.Init("fabric "+info.Fabric, nil, f.close)
}

func (f *Fabric) close() error { return cCloseFabric(f.ptr) }

// Close closes the fabric. It is refused with EBUSY while anything is open on it.
//
// Implements:
//
//	int fi_close(struct fid *fid)
func (f *Fabric) Close() error { return f.life.Close() }

// Name is the fabric's name.
func (f *Fabric) Name() string { return f.name }

// Raw returns the struct fid_fabric pointer, for calls that this package does not have.
func (f *Fabric) Raw() unsafe.Pointer { return f.ptr }

func (f *Fabric) lifetime() *life.Object { return &f.life }
