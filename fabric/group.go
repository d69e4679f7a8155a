package fabric

import (
	"fmt"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// Group is a multicast group that an endpoint has joined.
type Group struct {
	life life.Object
	ptr  unsafe.Pointer // struct weft_fi_group *
	raw  unsafe.Pointer // struct fid_mc *
}

// Join has the endpoint receive what is sent to a multicast address, and send there. It was opened with CapMulticast.
//
// Implements:
//
//	int fi_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
func (ep *Endpoint) Join(address []byte) (*Group, error) {
	if err := ep.life.Enter(); err != nil {
		return nil, err
	}
	defer ep.life.Exit()
	if ep.told.Caps&CapMulticast == 0 {
		return nil, invalid("join: the %s was opened without CapMulticast", ep.name)
	}
	if err := ep.told.checkAddress("join", address); err != nil {
		return nil, err
	}
	ptr, err := cJoin(ep.ptr, address)
	if err != nil {
		return nil, fmt.Errorf("join a group with %s: %w", ep.told.Provider, err)
	}
	g := &Group{ptr: ptr, raw: cRawGroup(ptr)}
	if err := g.life.Init("multicast group", &ep.life, g.leave); err != nil {
		return nil, closeAfter(err, g.leave)
	}
	return g, nil
}

func (g *Group) leave() error { return life.Refused(cLeave(g.ptr)) }

// Close leaves the group.
func (g *Group) Close() error { return g.life.Close() }

// Raw returns the struct fid_mc pointer, for calls that this package does not have.
func (g *Group) Raw() unsafe.Pointer { return g.raw }

func (g *Group) lifetime() *life.Object { return &g.life }

// Addr is the Peer of sends to the group, with FlagMulticast.
//
// Implements:
//
//	fi_addr_t fi_mc_addr(struct fid_mc *mc)
func (g *Group) Addr() (Addr, error) {
	if err := g.life.Enter(); err != nil {
		return AddrUnspec, err
	}
	defer g.life.Exit()
	return cGroupAddr(g.ptr), nil
}
