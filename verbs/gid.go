package verbs

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
)

// GID is a port's address: 16 bytes that are an IPv6 address, or an IPv4 address mapped into one.
type GID [16]byte

// Addr returns the GID as an IP address: an IPv4 one for a mapped address.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero tells whether the table entry that held this GID is empty.
func (g GID) IsZero() bool { return g == GID{} }

func (g GID) String() string { return g.Addr().String() }

// GIDType is the protocol that a GID table entry speaks.
type GIDType uint32

// The types of enum ibv_gid_type.
const (
	GIDTypeIB GIDType = iota
	GIDTypeRoCEv1
	GIDTypeRoCEv2
)

func (t GIDType) String() string { return name(t, "IB", "RoCE v1", "RoCE v2") }

// GIDEntry is one entry of a device's GID table.
type GIDEntry struct {
	GID    GID
	Port   uint8
	Index  int
	Type   GIDType
	NetDev string // the network interface that the address belongs to; empty on InfiniBand
}

// routable tells whether packets to the GID can leave the link.
func (e GIDEntry) routable() bool { return !e.GID.Addr().IsLinkLocalUnicast() }

// rank orders entries by how well they serve RDMA: RoCE v2 by IPv4, by global IPv6, by link-local address, then RoCE v1.
// Routers carry only v2, and of the v2 entries the link-local one often leads nowhere (https://github.com/NVIDIA/nccl
// issue 769). Nothing is read into addresses beyond that: private ranges are as good as any. InfiniBand entries do not
// mix with these. A rank of 0 cannot be used.
func (e GIDEntry) rank() int {
	switch {
	case e.GID.IsZero():
		return 0
	case e.Type == GIDTypeIB:
		return 5
	case e.Type == GIDTypeRoCEv2 && e.routable() && e.GID.Addr().Is4():
		return 4
	case e.Type == GIDTypeRoCEv2 && e.routable():
		return 3
	case e.Type == GIDTypeRoCEv2:
		return 2
	default:
		return 1
	}
}

// SelectGID chooses the entry of the port that serves RDMA best: RoCE v2 by IPv4 address, then by global IPv6 address,
// then by link-local address, then RoCE v1; among equals the lowest index. Without any the error wraps
// [ErrNoUsableGID] and shows the table.
func SelectGID(table []GIDEntry, port uint8) (GIDEntry, error) {
	usable := slices.DeleteFunc(slices.Clone(table), func(e GIDEntry) bool { return e.Port != port || e.rank() == 0 })
	if len(usable) == 0 {
		return GIDEntry{}, fmt.Errorf("port %d: %w; give its network interface an address and set it up; the table:\n%s",
			port, ErrNoUsableGID, FormatGIDTable(table))
	}
	return slices.MinFunc(usable, func(a, b GIDEntry) int {
		return cmp.Or(b.rank()-a.rank(), a.Index-b.Index)
	}), nil
}

// FindGID finds the entry that has the GID and type of want now, on the same port: the index of an address changes when it
// is taken away and comes back ([QP.Connect] looks it up itself). Where it is gone, the error wraps [ErrNoUsableGID] and shows
// the table.
func (c *Context) FindGID(want GIDEntry) (GIDEntry, error) {
	if c.holdsGID(want) {
		return want, nil
	}
	table, err := c.GIDTable()
	if err != nil {
		return GIDEntry{}, err
	}
	for _, e := range table {
		if e.GID == want.GID && e.Type == want.Type && e.Port == want.Port {
			return e, nil
		}
	}
	return GIDEntry{}, fmt.Errorf("port %d of %s no longer has %v (%v): %w; the table:\n%s",
		want.Port, c.name, want.GID, want.Type, ErrNoUsableGID, FormatGIDTable(table))
}

// holdsGID tells whether the entry is still where it was. One call finds that out; a table has hundreds of entries, which are
// not read with each connection that is made.
func (c *Context) holdsGID(want GIDEntry) bool {
	if c.life.Enter() != nil {
		return false
	}
	defer c.life.Exit()
	if want.GID.IsZero() || want.Index < 0 {
		return false
	}
	at, err := cQueryGID(c.ptr, uint32(want.Port), uint32(want.Index))
	return err == nil && GID(at.gid) == want.GID && GIDType(at.typ) == want.Type
}

// FormatGIDTable lays the entries out for people, one a line, with a header.
func FormatGIDTable(table []GIDEntry) string {
	if len(table) == 0 {
		return "(empty)\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PORT\tINDEX\tTYPE\tGID\tNETDEV")
	for _, e := range table {
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\n", e.Port, e.Index, e.Type, e.GID, e.NetDev)
	}
	w.Flush() // to memory
	return out.String()
}

// GRHSize is how many bytes at the start of every UD receive are for the global route header; the payload follows.
const GRHSize = 40

// SourceGID returns the sender's GID from the header area of a UD receive that completed as wc. The area does not say what
// it holds, which is a GRH or an IPv6 header over all 40 bytes, or an IPv4 header in the last 20 with nothing defined before
// it. ok is false where the completion says that there is no header, or the area holds neither.
func SourceGID(wc *WC, area []byte) (source GID, ok bool) {
	if wc.Flags&WCGRH == 0 || len(area) < GRHSize {
		return GID{}, false
	}
	ip4 := area[20:GRHSize]
	// Both headers begin with their version. What stands before an IPv4 header can be the start of an IPv6 one that came
	// into the same buffer earlier; and 0x45 can stand within an IPv6 address. Only then does the checksum decide, since
	// soft-RoCE leaves it out; what it puts before the header is zeros.
	is6, is4 := area[0]>>4 == 6, ip4[0] == 0x45
	switch {
	case is4 && (!is6 || isIPv4UDP(ip4)):
		return GID(netip.AddrFrom4([4]byte(ip4[12:16])).As16()), true
	case is6:
		return GID(area[8:24]), true
	}
	return GID{}, false
}

// isIPv4UDP tells whether 20 bytes that begin with 0x45 are an IPv4 header before UDP whose checksum is right.
func isIPv4UDP(b []byte) bool {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return sum == 0xffff && b[9] == ipProtoUDP
}

const ipProtoUDP = 17
