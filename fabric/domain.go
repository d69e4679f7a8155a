package fabric

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/solo"
)

// Domain is a NIC, or what a provider has for one: memory, queues and endpoints work together only within one.
type Domain struct {
	life   life.Object
	fabric *Fabric
	info   *Info
	told   *Info          // the same, as libfabric has it
	ptr    unsafe.Pointer // struct weft_fi_domain *
	raw    unsafe.Pointer // struct fid_domain *
	holds  holds          // its event queue
	solo   solo.Guard     // of a domain with ThreadDomain
}

// use is called at the start of a call on one of the domain's objects, and of those queues: it is noticed where the Threading that was
// granted does not let goroutines make such calls at the same time.
func (d *Domain) use(queues ...*CQ) {
	switch {
	case !solo.Enabled:
	case d.told.Threading == ThreadDomain:
		d.solo.Use()
	case d.told.Threading == ThreadCompletion:
		for _, cq := range queues {
			if cq != nil {
				cq.solo.Use()
			}
		}
	}
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
	told, err := f.check(info)
	if err != nil {
		return nil, invalid("open domain: %w", err)
	}
	ptr, err := cOpenDomain(f.ptr, info)
	if err != nil {
		return nil, fmt.Errorf("open domain %s of %s: %w", told.Domain, told.Provider, err)
	}
	d := &Domain{fabric: f, info: info, told: told, ptr: ptr, raw: cRawDomain(ptr)}
	if err := d.life.Init("domain "+told.Domain, &f.life, d.close); err != nil {
		return nil, closeAfter(err, d.close)
	}
	return d, nil
}

func (d *Domain) close() error {
	if err := cCloseDomain(d.ptr); err != nil {
		return life.Refused(err)
	}
	d.holds.release()
	return nil
}

// check returns what libfabric has in an info of this domain, and an error for one of another domain, fabric or provider.
func (d *Domain) check(info *Info) (*Info, error) {
	told, err := d.fabric.check(info)
	if err == nil && told.Domain != d.told.Domain {
		err = fmt.Errorf("the info is of domain %s, and this is domain %s", told.Domain, d.told.Domain)
	}
	return told, err
}

// owns returns an error for an object of another domain. Providers do not look: such an object gets the completions of others, or
// ends the process.
func (d *Domain) owns(name string, of *Domain) error {
	if of == d {
		return nil
	}
	return fmt.Errorf("%s is of another domain (%s of %s) than this one (%s of %s): open it with this Domain", name,
		of.told.Domain, of.told.Provider, d.told.Domain, d.told.Provider)
}

// owns is that of a Domain, for what belongs to the whole fabric.
func (f *Fabric) owns(name string, of *Fabric) error {
	if of == f {
		return nil
	}
	return fmt.Errorf("%s is of another fabric (%s of %s) than this one (%s of %s): open it with this Fabric", name,
		of.told.Fabric, of.told.Provider, f.told.Fabric, f.told.Provider)
}

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
		return invalid("bind domain: the event queue is nil")
	}
	if err := d.fabric.owns("EQ", eq.fabric); err != nil {
		return invalid("bind domain: %w", err)
	}
	return d.holds.during("domain", []*life.Object{&d.life, &eq.life}, func() error { return cBindDomain(d.ptr, eq.ptr) })
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

// holds keep objects open that one was bound to after it was opened.
type holds struct {
	mu   sync.Mutex
	held []*life.Object
}

// during makes a call that binds the first of objects, which is of that kind, to the last. If it succeeds, that one cannot be closed
// until release.
func (h *holds) during(kind string, objects []*life.Object, call func() error) error {
	exit, err := enter(objects...)
	if err != nil {
		return err
	}
	defer exit()
	held := new(life.Object)
	if err := held.Init(kind, objects[len(objects)-1], func() error { return nil }); err != nil {
		return err
	}
	if err := call(); err != nil {
		return closeAfter(err, held.Close)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(h.held, held)
	return nil
}

// release lets them go. Nothing of it can fail: nobody else knows the objects.
func (h *holds) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.held {
		_ = held.Close()
	}
	h.held = nil
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
