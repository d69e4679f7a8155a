package fabricrail

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
)

// Config says which provider to use, and how. It is a [rail.Opener].
type Config struct {
	// Provider is libfabric's name of it, one of [Providers]. It has to be named.
	Provider string
	// Node is the address of this machine on which a rail over tcp takes connections, on no other, and which peers connect to:
	// "192.0.2.1". It has to be given and cannot be 0.0.0.0 or ::, to which no peer can connect. Service is the port, "17471"; without it
	// the rail takes a free one. EFA has neither.
	Node, Service string
	// Advertise is the address and port that peers over tcp connect to, where something between translates them to Node and Service,
	// such as docker run -p; without it that is where the rail listens.
	Advertise netip.AddrPort
	// Domain is one of the provider's domains, such as "lo"; empty for the first.
	Domain string

	// WriteDepth is how many operations on one peer can be in flight; 0 is 256.
	WriteDepth int
	// Immediates is how many immediates one peer can have on the way to this rail; 0 is 256.
	Immediates int
	// CompletionDepth is the depth of the completion queue; 0 is 65536. It limits how many peers the rail can have: each
	// takes WriteDepth + Immediates + 64 of it.
	CompletionDepth int

	// HandshakeInterval is how long to wait for an answer before the first hello is sent again; the time doubles up to 20
	// times that. 0 is 50 ms.
	HandshakeInterval time.Duration
	// AcceptTimeout is how long a peer that called may take to finish the handshake; 0 is 10 s.
	AcceptTimeout time.Duration
	// OnlyCalled makes the rail take peers that it has called itself, by Connect, and no others: a hello of another one is passed
	// over. A peer's hello says where the rail shall connect to, so set it where peers are not trusted.
	OnlyCalled bool
	// Heartbeat is after how much silence towards a peer a sign of life is sent; 0 is 1 s.
	Heartbeat time.Duration
	// PeerTimeout is after how much silence a peer is lost whose process the kernel does not vouch for; 0 is 10 s. At least
	// three times the heartbeat. Peers need a longer PeerTimeout than this rail's Heartbeat, so keep both the same everywhere.
	PeerTimeout time.Duration
	// DrainTimeout is how long the completions of a lost peer's operations are waited for, and how long a farewell may take;
	// 0 is 1 s.
	DrainTimeout time.Duration

	datagrams bool // tests let tcp stand in for EFA, over libfabric's layer of reliable datagrams
}

// connected tells whether peers have connections of their own, which tcp alone has.
func (cfg *Config) connected() bool { return cfg.Provider == "tcp" && !cfg.datagrams }

const (
	maxDepth      = 1 << 15
	messageWindow = 16 // messages of the engine on their way to one peer
	// ownPerPeer is how much of the completion queue the messages of one peer can take, in both directions.
	ownPerPeer = 64
)

func (cfg Config) withDefaults() Config {
	orDefault(&cfg.WriteDepth, 256)
	orDefault(&cfg.Immediates, 256)
	orDefault(&cfg.CompletionDepth, 1<<16)
	orDefault(&cfg.HandshakeInterval, 50*time.Millisecond)
	orDefault(&cfg.AcceptTimeout, 10*time.Second)
	orDefault(&cfg.Heartbeat, time.Second)
	orDefault(&cfg.PeerTimeout, 10*time.Second)
	orDefault(&cfg.DrainTimeout, time.Second)
	return cfg
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate checks a Config with its defaults filled in, before anything is opened.
func (cfg *Config) validate() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"HandshakeInterval", cfg.HandshakeInterval}, {"AcceptTimeout", cfg.AcceptTimeout},
		{"Heartbeat", cfg.Heartbeat}, {"PeerTimeout", cfg.PeerTimeout}, {"DrainTimeout", cfg.DrainTimeout},
	} {
		if d.value < 0 {
			return invalid("%s is %v: it cannot be negative", d.field, d.value)
		}
	}
	if err := CheckProvider(cfg.Provider); err != nil {
		return fmt.Errorf("fabricrail: %w", err)
	}
	switch {
	case cfg.Provider == "tcp" && cfg.Node == "":
		return invalid("Node is empty: give the address of this machine that peers connect to, or 127.0.0.1 for this machine alone")
	case cfg.Advertise.IsValid() && (cfg.Provider != "tcp" || cfg.Advertise.Addr().IsUnspecified() || cfg.Advertise.Port() == 0):
		return invalid("Advertise is %v: it has to be an address and port that peers over tcp can connect to", cfg.Advertise)
	case unspecified(cfg.Node):
		return invalid("Node is %s, which no peer can connect to: give the address of this machine that peers reach", cfg.Node)
	case cfg.WriteDepth < 4 || cfg.WriteDepth > maxDepth:
		return invalid("WriteDepth is %d: 4 to %d are possible", cfg.WriteDepth, maxDepth)
	case cfg.Immediates < 2 || cfg.Immediates > maxDepth:
		return invalid("Immediates is %d: 2 to %d are possible", cfg.Immediates, maxDepth)
	case cfg.PeerTimeout < 3*cfg.Heartbeat:
		return invalid("PeerTimeout of %v is less than three times the Heartbeat of %v", cfg.PeerTimeout, cfg.Heartbeat)
	case cfg.CompletionDepth < ownCompletions+cfg.perPeer():
		return invalid("a completion queue of %d has no room for one peer: %d are needed with WriteDepth %d and Immediates %d",
			cfg.CompletionDepth, ownCompletions+cfg.perPeer(), cfg.WriteDepth, cfg.Immediates)
	}
	return nil
}

// unspecified tells whether an address stands for all of a machine's.
func unspecified(node string) bool {
	ip, err := netip.ParseAddr(node)
	return err == nil && ip.Unmap().IsUnspecified()
}

// perPeer is how many completions one peer can have outstanding.
func (cfg *Config) perPeer() int { return cfg.WriteDepth + cfg.Immediates + ownPerPeer }

// ownCompletions is what the rail keeps of the queue for hellos.
const ownCompletions = 256

// explain adds to an error of opening the rail which field to change.
func (cfg *Config) explain(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("Config.Node %s is no address of this machine: %w", cfg.Node, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("Config.Service %s is taken on %s: %w", cfg.Service, cfg.Node, err)
	}
	return err
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("fabricrail: "+format+": %w", append(args, syscall.EINVAL)...)
}

var _ rail.Opener = Config{}
