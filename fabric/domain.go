package fabric

import (
	"fmt"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// Domain is a NIC, or what a provider has for one: memory, queues and endpoints work together only within one.
type Domain struct {
	life   life.Object
	fabric *Fabric
	info   *Info
	ptr    unsafe.Pointer // struct weft_fi_domain *
	raw    unsafe.Pointer // struct fid_domain *
}

// OpenDomain opens the domain of an info, which is one of this fabric.
//
// Implements:
//
//	int fi_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
//	int fi_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, uint64_t flags, void *context)
func (f *Fabric) OpenDomain(info *Info) (*Domain, error) {
	if err := f.life.Enter(); err != nil {
		return nil, err
	}
	defer f.life.Exit()
	if info == nil || info.Fabric != f.name {
		return nil, invalid("open domain: the info is not of the fabric %s", f.name)
	}
	ptr, err := cOpenDomain(f.ptr, info)
	if err != nil {
		return nil, fmt.Errorf("open domain %s of %s: %w", info.Domain, info.Provider, err)
	}
	d := &Domain{fabric: f, info: info, ptr: ptr, raw: cRawDomain(ptr)}
	if err := d.life.Init("domain "+info.Domain, &f.life, d.close); err != nil {
		return nil, closeAfter(err, d.close)
	}
	return d, nil
}

func (d *Domain) close() error { return cCloseDomain(d.ptr) }

// Close closes the domain. It is refused with EBUSY while anything is open on it.
func (d *Domain) Close() error { return d.life.Close() }

// Info is what the domain was opened with.
func (d *Domain) Info() *Info { return d.info }

// Fabric is what the domain is on.
func (d *Domain) Fabric() *Fabric { return d.fabric }

// Raw returns the struct fid_domain pointer, for calls that this package does not have.
func (d *Domain) Raw() unsafe.Pointer { return d.raw }

func (d *Domain) lifetime() *life.Object { return &d.life }

// BindEQ has events of the domain go to an event queue.
//
// Implements:
//
//	int fi_domain_bind(struct fid_domain *domain, struct fid *fid, uint64_t flags)
func (d *Domain) BindEQ(eq *EQ) error {
	if eq == nil {
		return invalid("bind domain: no event queue")
	}
	release, err := enter(&d.life, &eq.life)
	if err != nil {
		return err
	}
	defer release()
	return cBindDomain(d.ptr, eq.ptr)
}

// enter begins a call that uses several objects; release ends it.
func enter(objects ...*life.Object) (release func(), err error) {
	for i, object := range objects {
		if err := object.Enter(); err != nil {
			exitAll(objects[:i])
			return nil, err
		}
	}
	return func() { exitAll(objects) }, nil
}

func exitAll(objects []*life.Object) {
	for _, object := range objects {
		object.Exit()
	}
}

// hold keeps an object open, for one of that kind that uses it, until closeHolds.
func hold(kind string, on *life.Object) (*life.Object, error) {
	held := new(life.Object)
	return held, held.Init(kind, on, func() error { return nil })
}

func closeHolds(holds []*life.Object) error {
	for _, held := range holds {
		if err := held.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Object is anything of this package that is a struct fid underneath, for the calls below.
type Object interface {
	Raw() unsafe.Pointer // Raw is the struct fid.
	lifetime() *life.Object
}

// on makes a call on an object that is open.
func on(of Object, call func(fid unsafe.Pointer) error) error {
	if err := of.lifetime().Enter(); err != nil {
		return err
	}
	defer of.lifetime().Exit()
	return call(of.Raw())
}

// OpenOps gives a provider's own functions of an object by their name, such as those of rdma/fi_ext_efa.h. They are the
// object's: it stays open while they are used.
//
// Implements:
//
//	int fi_open_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
func OpenOps(of Object, name string) (ops unsafe.Pointer, err error) {
	err = on(of, func(fid unsafe.Pointer) (err error) {
		ops, err = cOpenOps(fid, name)
		return err
	})
	return ops, err
}

// SetOps gives an object functions of that name.
//
// Implements:
//
//	int fi_set_ops(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
func SetOps(of Object, name string, ops unsafe.Pointer) error {
	return on(of, func(fid unsafe.Pointer) error { return cSetOps(fid, name, ops) })
}

// Control runs a command of fi_control on an object; argument is C memory of the command's own form.
//
// Implements:
//
//	int fi_control(struct fid *fid, int command, void *arg)
func Control(of Object, command int, argument unsafe.Pointer) error {
	return on(of, func(fid unsafe.Pointer) error { return cControl(fid, command, argument) })
}

// GetVal reads a provider's own variable of an object into C memory.
//
// Implements:
//
//	int fi_get_val(struct fid *fid, int name, void *val)
func GetVal(of Object, name int, value unsafe.Pointer) error {
	return on(of, func(fid unsafe.Pointer) error { return cGetVal(fid, name, value) })
}

// SetVal sets a provider's own variable of an object from C memory.
//
// Implements:
//
//	int fi_set_val(struct fid *fid, int name, void *val)
func SetVal(of Object, name int, value unsafe.Pointer) error {
	return on(of, func(fid unsafe.Pointer) error { return cSetVal(fid, name, value) })
}
