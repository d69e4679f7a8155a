package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// DeviceInfo is a device as the library lists it, before it is opened.
type DeviceInfo struct {
	Name  string
	GUID  GUID
	Index int // the kernel's number for it; −1 if the library cannot tell

	NodeType NodeType
}

// NodeType is what kind of device it is (enum ibv_node_type).
type NodeType uint32

// The kinds of devices of which there are any. Soft-RoCE, RoCE and InfiniBand devices are all channel adapters.
const (
	NodeCA          NodeType = 1
	NodeSwitch      NodeType = 2
	NodeRouter      NodeType = 3
	NodeRNIC        NodeType = 4 // iWARP
	NodeUnspecified NodeType = 7 // EFA
)

// String names the kind.
//
// Implements:
//
//	const char *ibv_node_type_str(enum ibv_node_type node_type)
func (t NodeType) String() string {
	return name(t, "unknown", "channel adapter", "switch", "router", "RNIC", "usNIC", "usNIC over UDP", "unspecified")
}

// GUID is a device's 8-byte identity.
type GUID [8]byte

func (g GUID) String() string {
	return fmt.Sprintf("%x:%x:%x:%x", g[0:2], g[2:4], g[4:6], g[6:8])
}

// Devices lists the RDMA devices of this machine; none is not an error. The error wraps [ErrNoLibrary] where libibverbs
// is missing.
//
// Implements:
//
//	struct ibv_device **ibv_get_device_list(int *num_devices)
//	void ibv_free_device_list(struct ibv_device **list)
//	const char *ibv_get_device_name(struct ibv_device *device)
//	uint64_t ibv_get_device_guid(struct ibv_device *device)
//	int ibv_get_device_index(struct ibv_device *device)
func Devices() ([]DeviceInfo, error) {
	devices, err := cDevices()
	if errors.Is(err, syscall.ENOSYS) { // a kernel without ib_uverbs
		return nil, nil
	}
	return devices, err
}

// Context is an open device.
type Context struct {
	life        life.Object
	ptr         unsafe.Pointer // struct ibv_context *
	name        string
	attr        DeviceAttr
	fd, vectors int

	borrowed bool // imported: closing leaves the device open
	events   eventReader
	objects  registry

	noRelaxedOrdering atomic.Bool // the device refused it once
}

// Open opens the device of that name; an empty name is the only device of the machine.
//
// Implements:
//
//	struct ibv_context *ibv_open_device(struct ibv_device *device)
//	int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
func Open(name string) (*Context, error) {
	name, err := chooseDevice(name)
	if err != nil {
		return nil, err
	}
	ptr, err := cOpenDevice(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return newContext(ptr, name, false)
}

// ImportContext uses a struct ibv_context that was opened by other means, such as mlx5dv_open_device. It must stay open
// until Close, which does not close the device. Meanwhile its asynchronous events are read here; their descriptor is
// non-blocking from then on.
func ImportContext(raw unsafe.Pointer) (*Context, error) {
	if raw == nil {
		return nil, invalid("import context: the pointer is nil")
	}
	if err := load(); err != nil {
		return nil, err
	}
	return newContext(raw, cContextName(raw), true)
}

// ImportDevice opens a device that another process has open, by a duplicate of its [Context.FD]: the two share the kernel's
// objects, which are found by their handles ([Context.ImportPD], [PD.ImportMR]). The descriptor belongs to the context from
// then on. Where libibverbs or the driver cannot do it, the error wraps [errors.ErrUnsupported].
//
// Implements:
//
//	struct ibv_context *ibv_import_device(int cmd_fd)
func ImportDevice(fd int) (*Context, error) {
	ptr, err := cImportDevice(fd)
	if err != nil {
		return nil, fmt.Errorf("import device: %w", err)
	}
	return newContext(ptr, cContextName(ptr), false)
}

func newContext(ptr unsafe.Pointer, name string, borrowed bool) (*Context, error) {
	c := &Context{ptr: ptr, name: name, borrowed: borrowed, fd: cContextFD(ptr), vectors: cContextVectors(ptr)}
	raw, err := cQueryDevice(ptr)
	if err == nil {
		c.attr = raw.export()
		err = c.readEvents()
	}
	if err == nil {
		err = c.life.Init("device "+name, nil, c.close)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, closeAfter(err, c.close))
	}
	return c, nil
}

// chooseDevice checks the name against the list.
func chooseDevice(name string) (string, error) {
	devices, err := Devices()
	if err != nil {
		return "", err
	}
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.Name
		if d.Name == name {
			return name, nil
		}
	}
	asked := ""
	if name != "" {
		asked = ": " + name
	}
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("%w%s: this machine has none; `weft doctor` says why, and what to do", ErrNoDevice, asked)
	case name == "" && len(names) == 1:
		return names[0], nil
	case name == "":
		return "", fmt.Errorf("%w: there are several, name one of %s", ErrNoDevice, strings.Join(names, ", "))
	default:
		return "", fmt.Errorf("%w%s; this machine has %s", ErrNoDevice, asked, strings.Join(names, ", "))
	}
}

// closeAfter frees what was made before err and returns err; what freeing says is added to it.
func closeAfter(err error, free func() error) error {
	if freeErr := free(); freeErr != nil {
		return fmt.Errorf("%w (and then: %w)", err, freeErr)
	}
	return err
}

func (c *Context) close() error {
	c.events.stop()
	if c.borrowed {
		return nil
	}
	return cCloseDevice(c.ptr)
}

// Close closes the device and [Context.Events]. It is refused with EBUSY while anything is open on it.
//
// Implements:
//
//	int ibv_close_device(struct ibv_context *context)
func (c *Context) Close() error { return c.life.Close() }

// Name returns the device's name, such as "mlx5_0" or "rxe0".
func (c *Context) Name() string { return c.name }

// Attr returns the device's attributes, as they were when it was opened; they do not change.
func (c *Context) Attr() DeviceAttr { return c.attr }

// Raw returns the struct ibv_context pointer, for calls that this package does not have.
func (c *Context) Raw() unsafe.Pointer { return c.ptr }

// FD is the descriptor of the device, for [ImportDevice] in a process that it is passed to.
func (c *Context) FD() int { return c.fd }

// Vectors is how many completion vectors the device has, from 0 on: each interrupts a processor of its own.
func (c *Context) Vectors() int { return c.vectors }

// guid turns the library's number, which is in network order, into bytes.
func guid(n uint64) (g GUID) {
	binary.NativeEndian.PutUint64(g[:], n)
	return g
}

// GIDTable returns the valid entries of all ports' GID tables.
//
// Implements:
//
//	ssize_t ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags)
func (c *Context) GIDTable() ([]GIDEntry, error) {
	if err := c.life.Enter(); err != nil {
		return nil, err
	}
	defer c.life.Exit()
	room := 0
	for port := 1; port <= c.attr.Ports; port++ {
		attr, err := c.QueryPort(uint8(port))
		if err != nil {
			return nil, err
		}
		room += attr.GIDTableLen
	}
	raw := make([]gidEntry, room)
	n, err := cGIDTable(c.ptr, raw)
	if err != nil {
		return nil, err
	}
	table := make([]GIDEntry, n)
	for i := range table {
		table[i] = raw[i].export()
	}
	return table, nil
}

// QueryGID returns one entry of a port's GID table; an empty one is an error.
//
// Implements:
//
//	int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
//	int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
func (c *Context) QueryGID(port uint8, index int) (GIDEntry, error) {
	if err := c.life.Enter(); err != nil {
		return GIDEntry{}, err
	}
	defer c.life.Exit()
	attr, err := c.QueryPort(port)
	if err != nil {
		return GIDEntry{}, err
	}
	if index < 0 || index >= attr.GIDTableLen {
		return GIDEntry{}, invalid("query GID %d of port %d: the table has %d entries", index, port, attr.GIDTableLen)
	}
	raw, err := cQueryGID(c.ptr, uint32(port), uint32(index))
	if err != nil {
		return GIDEntry{}, fmt.Errorf("GID %d of port %d of %s: %w", index, port, c.name, err)
	}
	return raw.export(), nil
}

func (e *gidEntry) export() GIDEntry {
	out := GIDEntry{GID: e.gid, Port: uint8(e.port), Index: int(e.index), Type: GIDType(e.typ)}
	if iface, err := net.InterfaceByIndex(int(e.ifindex)); err == nil {
		out.NetDev = iface.Name
	}
	return out
}

// gidEntry is struct weft_gid_entry.
type gidEntry struct {
	gid                       [16]byte
	index, port, typ, ifindex uint32
}
