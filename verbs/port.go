package verbs

import "fmt"

// PortState is a port's logical state (enum ibv_port_state).
type PortState uint32

// A port carries data in PortActive alone.
const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
)

// String names the state.
//
// Implements:
//
//	const char *ibv_port_state_str(enum ibv_port_state port_state)
func (s PortState) String() string {
	return name(s, "no state", "down", "initializing", "armed", "active", "active (deferred)")
}

// LinkLayer is what carries a port's packets.
type LinkLayer uint8

// The link layers of the verbs interface (IBV_LINK_LAYER_*).
const (
	LinkLayerUnspecified LinkLayer = iota
	LinkLayerInfiniBand
	LinkLayerEthernet
)

func (l LinkLayer) String() string { return name(l, "unspecified", "InfiniBand", "Ethernet") }

// PortAttr is what a port is and does now.
type PortAttr struct {
	State       PortState
	MaxMTU      MTU
	ActiveMTU   MTU
	LID         uint16 // InfiniBand
	GIDTableLen int
	PKeys       int
	MaxMessage  uint32 // bytes of the largest message
	LinkLayer   LinkLayer
	Flags       uint32 // enum ibv_port_cap_flags
	Flags2      uint16 // enum ibv_port_cap_flags2
	PhysState   uint8  // IBTA volume 1, PortInfo: 5 is link up
	// InfiniBand: how many low bits of the LID choose a path, the subnet manager's address and service level, how long it
	// may take to answer (code as of timeouts), and the number of virtual lanes (code).
	LMC                               uint8
	SMLID                             uint16
	SMSL, SubnetTimeout, VirtualLanes uint8
	// BadPKeys and QKeyViolations count packets that were dropped for their P_Key and Q_Key.
	BadPKeys, QKeyViolations uint32
	// Width and Speed are the codes of the verbs interface; Gbps is what they amount to.
	Width, Speed uint8
}

// portAttr is struct weft_port_attr.
type portAttr struct {
	state, maxMTU, activeMTU, gidTableLen, maxMessage uint32
	flags, badPKeys, qkeyViolations                   uint32
	lid, smLID, pkeyTableLen, flags2                  uint16
	width, speed, physState, linkLayer                uint8
	lmc, smSL, subnetTimeout, virtualLanes            uint8
}

// Gbps is the port's signalling rate in Gbit/s (width times lane speed, IBTA volume 1, PortInfo), 0 if unknown.
func (a PortAttr) Gbps() float64 {
	lanes := map[uint8]float64{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[a.Width]
	speed := map[uint8]float64{1: 2.5, 2: 5, 4: 10, 8: 10, 16: 14, 32: 25, 64: 50, 128: 100}[a.Speed]
	return lanes * speed
}

// QueryPort returns the attributes of a port, which are numbered from 1.
//
// Implements:
//
//	int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr)
func (c *Context) QueryPort(port uint8) (PortAttr, error) {
	if err := c.life.Enter(); err != nil {
		return PortAttr{}, err
	}
	defer c.life.Exit()
	if port < 1 || int(port) > c.attr.Ports {
		return PortAttr{}, invalid("query port %d of %s: its ports are 1 to %d", port, c.name, c.attr.Ports)
	}
	a, err := cQueryPort(c.ptr, port)
	if err != nil {
		return PortAttr{}, fmt.Errorf("port %d of %s: %w", port, c.name, err)
	}
	return PortAttr{
		State: PortState(a.state), MaxMTU: MTUFromCode(uint8(a.maxMTU)), ActiveMTU: MTUFromCode(uint8(a.activeMTU)),
		LID: a.lid, GIDTableLen: int(a.gidTableLen), PKeys: int(a.pkeyTableLen), MaxMessage: a.maxMessage,
		LinkLayer: LinkLayer(a.linkLayer), Width: a.width, Speed: a.speed, Flags: a.flags, Flags2: a.flags2,
		PhysState: a.physState, LMC: a.lmc, SMLID: a.smLID, SMSL: a.smSL, SubnetTimeout: a.subnetTimeout,
		VirtualLanes: a.virtualLanes, BadPKeys: a.badPKeys, QKeyViolations: a.qkeyViolations,
	}, nil
}

// name returns the name of an enumeration's value, or its number.
func name[T ~uint8 | ~uint32](value T, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%d", value)
}

// PKey reads an entry of a port's table of partition keys, by its index from 0 on. On RoCE it has one entry, 0xffff.
//
// Implements:
//
//	int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
func (c *Context) PKey(port uint8, index int) (uint16, error) {
	if err := c.life.Enter(); err != nil {
		return 0, err
	}
	defer c.life.Exit()
	attr, err := c.QueryPort(port)
	if err != nil {
		return 0, err
	}
	if index < 0 || index >= attr.PKeys {
		return 0, invalid("query P_Key %d of port %d: the table has %d entries", index, port, attr.PKeys)
	}
	return cQueryPKey(c.ptr, port, index)
}

// PKeyIndex finds a partition key in a port's table.
//
// Implements:
//
//	int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
func (c *Context) PKeyIndex(port uint8, key uint16) (int, error) {
	if err := c.life.Enter(); err != nil {
		return 0, err
	}
	defer c.life.Exit()
	if _, err := c.QueryPort(port); err != nil {
		return 0, err
	}
	index, err := cPKeyIndex(c.ptr, port, key)
	if err != nil {
		return 0, fmt.Errorf("P_Key %#x is not in the table of port %d of %s: %w", key, port, c.name, err)
	}
	return index, nil
}
