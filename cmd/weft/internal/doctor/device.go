package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/inventory"
)

// What RoCE v2 adds to the payload of a packet within the interface's MTU, in bytes: IPv4 20 or IPv6 40, UDP 8, BTH 12, RETH
// 16, immediate 4, ICRC 4 (InfiniBand specification, annex A17, and 9.2 to 9.4).
const (
	headersIPv4 = 64
	headersIPv6 = 84
)

// neededMemlock is what one end of a file transfer locks: its window or what it reads ahead, and queues.
const neededMemlock = filetransfer.DefaultWindow + 4<<20

func (e *examination) device(d inventory.Device) {
	if d.Error != "" {
		e.found(Broken, "device "+d.Name, "see the findings above", "%s", d.Error)
		return
	}
	anyActive := slices.ContainsFunc(d.Ports, func(p inventory.Port) bool { return p.Active })
	for _, p := range d.Ports {
		name := fmt.Sprintf("%s/%d", d.Name, p.Number)
		if !p.Active {
			level := Broken
			if anyActive {
				level = Warning
			}
			e.found(level, "port "+name, e.wake(p), "it is %s", p.State)
			continue
		}
		e.ok("port "+name, "it is active, %s", p.LinkLayer)
		e.gid(name, p)
		if p.LinkLayer == "Ethernet" {
			e.mtu(name, p)
		}
	}
}

// wake says how to make a port active.
func (e *examination) wake(p inventory.Port) string {
	switch {
	case p.LinkLayer == "InfiniBand":
		return "look at the cable, and that a subnet manager runs (opensm)"
	case len(p.GIDs) > 0 && p.GIDs[0].NetDev != "":
		return "ip link set dev " + p.GIDs[0].NetDev + " up, and look at the cable"
	}
	return "set its network interface up (rdma link shows which), and look at the cable"
}

func (e *examination) gid(name string, p inventory.Port) {
	check := "GID " + name
	chosen := slices.IndexFunc(p.GIDs, func(g inventory.GID) bool { return g.Chosen })
	if chosen < 0 {
		e.found(Broken, check, "ip address add ADDRESS/BITS dev NAME, with the name of its network interface", "%s", p.NoGID)
		return
	}
	g := p.GIDs[chosen]
	switch {
	case g.Type == "RoCE v1":
		e.found(Warning, check, "give its network interface an IP address", "only RoCE v1, which no router forwards: %s", g.GID)
	case g.Type == "RoCE v2" && !g.Routable:
		e.found(Warning, check, "ip address add ADDRESS/BITS dev "+g.NetDev,
			"only a link-local address, which reaches no other link: %s", g.GID)
	default:
		e.ok(check, "%s, %s, index %d", g.GID, g.Type, g.Index)
	}
}

// mtu compares the path MTU with that of the network interface.
func (e *examination) mtu(name string, p inventory.Port) {
	check := "MTU " + name
	chosen := slices.IndexFunc(p.GIDs, func(g inventory.GID) bool { return g.Chosen && g.NetDev != "" })
	if chosen < 0 {
		return
	}
	netdev := p.GIDs[chosen].NetDev
	text, _ := fs.ReadFile(e.Files, path.Join("sys/class/net", netdev, "mtu"))
	mtu, err := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case err != nil:
		e.found(Warning, check, "ip link show dev "+netdev, "the MTU of %s cannot be read", netdev)
	case mtu < p.ActiveMTU+headersIPv4:
		e.found(Broken, check, fmt.Sprintf("ip link set dev %s mtu %d", netdev, p.ActiveMTU+headersIPv6),
			"packets of %d bytes and their headers do not fit into the MTU of %s, %d", p.ActiveMTU, netdev, mtu)
	case p.ActiveMTU < p.MaxMTU:
		e.found(Warning, check, fmt.Sprintf("ip link set dev %s mtu %d, there, at the other ends and on switches between", netdev,
			p.MaxMTU+headersIPv6), "packets carry %d bytes where %d are possible, since the MTU of %s is %d",
			p.ActiveMTU, p.MaxMTU, netdev, mtu)
	default:
		e.ok(check, "packets carry %d bytes, %s takes %d", p.ActiveMTU, netdev, mtu)
	}
}

// memlock looks at the limit on locked memory (proc(5), capabilities(7)).
func (e *examination) memlock() {
	const check = "memlock"
	const fix = "ulimit -l unlimited; for good: * - memlock unlimited in /etc/security/limits.d, LimitMEMLOCK=infinity for a " +
		"service, --ulimit memlock=-1 for a container"
	limits, err := fs.ReadFile(e.Files, "proc/self/limits")
	if err != nil {
		e.found(Warning, check, fix, "the limit on locked memory cannot be read: %v", err)
		return
	}
	_, rest, _ := strings.Cut(string(limits), "Max locked memory")
	soft := "unlimited"
	if fields := strings.Fields(rest); len(fields) > 0 {
		soft = fields[0]
	}
	bytes, err := strconv.ParseUint(soft, 10, 64)
	switch {
	case err != nil:
		e.ok(check, "locked memory is not limited")
	case e.locksFreely():
		e.ok(check, "the limit of %d bytes does not bind this process (CAP_IPC_LOCK)", bytes)
	case bytes < neededMemlock:
		e.found(Broken, check, fix, "the limit on locked memory is %d bytes, a file transfer takes %d", bytes, neededMemlock)
	default:
		e.ok(check, "the limit on locked memory is %d bytes, a file transfer takes %d", bytes, neededMemlock)
	}
}

// locksFreely tells whether the process has CAP_IPC_LOCK.
func (e *examination) locksFreely() bool {
	const capIPCLock = 14
	status, _ := fs.ReadFile(e.Files, "proc/self/status")
	_, rest, _ := strings.Cut(string(status), "\nCapEff:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		caps, err := strconv.ParseUint(fields[0], 16, 64)
		return err == nil && caps&(1<<capIPCLock) != 0
	}
	return false
}
