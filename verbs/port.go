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
	// Width and Speed are the codes of the verbs interface; Gbps is what they amount to.
	Width, Speed uint8
}

// portAttr is struct weft_port_attr.
type portAttr struct {
	state, maxMTU, activeMTU, gidTableLen, maxMessage uint32
	lid, pkeyTableLen                                 uint16
	width, speed, physState, linkLayer                uint8
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
		LinkLayer: LinkLayer(a.linkLayer), Width: a.width, Speed: a.speed,
	}, nil
}

// name returns the name of an enumeration's value, or its number.
func name[T ~uint8 | ~uint32](value T, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%d", value)
}
