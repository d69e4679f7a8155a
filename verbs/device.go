package verbs

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// DeviceInfo is a device as the library lists it, before it is opened.
type DeviceInfo struct {
	Name string
	GUID GUID
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
func Devices() ([]DeviceInfo, error) { return cDevices() }

// Context is an open device.
type Context struct {
	life life.Object
	ptr  unsafe.Pointer // struct ibv_context *
	name string
	attr DeviceAttr
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
	c := &Context{ptr: ptr, name: name}
	raw, err := cQueryDevice(ptr)
	if err == nil {
		c.attr = raw.export()
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
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("%w: this machine has none", ErrNoDevice)
	case name == "" && len(names) == 1:
		return names[0], nil
	case name == "":
		return "", fmt.Errorf("%w: name one of %s", ErrNoDevice, strings.Join(names, ", "))
	default:
		return "", fmt.Errorf("%w: %s; this machine has %s", ErrNoDevice, name, strings.Join(names, ", "))
	}
}

// closeAfter frees what was made before err and returns err; what freeing says is added to it.
func closeAfter(err error, free func() error) error {
	if freeErr := free(); freeErr != nil {
		return fmt.Errorf("%w (and then: %w)", err, freeErr)
	}
	return err
}

func (c *Context) close() error { return cCloseDevice(c.ptr) }

// Close closes the device. It is refused with EBUSY while a PD or CQ is open on it.
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

// DeviceAttr is what a device can do.
type DeviceAttr struct {
	FirmwareVersion string
	NodeGUID        GUID
	VendorID        uint32
	VendorPartID    uint32
	HardwareVersion uint32
	Ports           int    // ports are numbered from 1
	MaxMRSize       uint64 // bytes
	MaxQP           int
	MaxQPWR         int // work requests in one queue
	MaxSGE          int // entries of one work request
	MaxCQ           int
	MaxCQE          int // completions in one queue
	MaxMR           int
	MaxPD           int
	MaxAH           int
	// MaxQPRdAtom is how many RDMA reads and atomics a queue pair takes at a time as target, MaxQPInitRdAtom how many it
	// starts.
	MaxQPRdAtom     int
	MaxQPInitRdAtom int
}

// deviceAttr is struct weft_device_attr.
type deviceAttr struct {
	fwVer                                                      [64]byte
	nodeGUID                                                   [8]byte
	maxMRSize                                                  uint64
	vendorID, vendorPartID, hwVer                              uint32
	maxQP, maxQPWR, maxSGE, maxCQ, maxCQE, maxMR, maxPD, maxAH uint32
	maxQPRdAtom, maxQPInitRdAtom, ports                        uint32
}

func (a *deviceAttr) export() DeviceAttr {
	firmware, _, _ := strings.Cut(string(a.fwVer[:]), "\x00")
	return DeviceAttr{
		FirmwareVersion: firmware, NodeGUID: a.nodeGUID,
		VendorID: a.vendorID, VendorPartID: a.vendorPartID, HardwareVersion: a.hwVer,
		Ports: int(a.ports), MaxMRSize: a.maxMRSize, MaxQP: int(a.maxQP), MaxQPWR: int(a.maxQPWR), MaxSGE: int(a.maxSGE),
		MaxCQ: int(a.maxCQ), MaxCQE: int(a.maxCQE), MaxMR: int(a.maxMR), MaxPD: int(a.maxPD), MaxAH: int(a.maxAH),
		MaxQPRdAtom: int(a.maxQPRdAtom), MaxQPInitRdAtom: int(a.maxQPInitRdAtom),
	}
}

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
	for i, e := range raw[:n] {
		table[i] = GIDEntry{GID: e.gid, Port: uint8(e.port), Index: int(e.index), Type: GIDType(e.typ)}
		if iface, err := net.InterfaceByIndex(int(e.ifindex)); err == nil {
			table[i].NetDev = iface.Name
		}
	}
	return table, nil
}

// gidEntry is struct weft_gid_entry.
type gidEntry struct {
	gid                       [16]byte
	index, port, typ, ifindex uint32
}
