package verbsrail

import (
	"fmt"
	"syscall"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

// Config says which device to use, and how. It is a [rail.Opener]; its zero value is the only device of the machine with
// the defaults of each field.
type Config struct {
	// Device is the name of an RDMA device, such as "mlx5_0" or "rxe0"; empty for the only one of the machine.
	Device string
	// Context is a device that the caller has opened, or imported from elsewhere, and that is used instead of Device; nil is
	// none. It must stay open until the rail is closed, which leaves it open.
	Context *verbs.Context
	// Port is the device's port; 0 is port 1.
	Port uint8
	// GIDIndex is the entry of the port's GID table to send from; nil is what [verbs.SelectGID] chooses.
	GIDIndex *int

	// WriteDepth is how many writes to one peer can be in flight; 0 is 256.
	WriteDepth int
	// Immediates is how many immediates one peer can have on the way to this rail; 0 is 256.
	Immediates int
	// CompletionDepth is the depth of the completion queue; 0 is 65536, or what the device takes if that is less. It limits
	// how many peers the rail can have: each takes WriteDepth + Immediates + 48 of it.
	CompletionDepth int

	// Connection is the behaviour of the reliable connections. Finite numbers of RNR retries are not supported.
	Connection verbs.ConnectConfig
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
	// DrainTimeout is how long the completions of a lost peer's operations and immediates are waited for, and how long a farewell may
	// take; 0 is 1 s.
	DrainTimeout time.Duration

	// fault, in tests, says how many copies of the rail's n-th handshake datagram go out: 0 loses it.
	fault func(n int) (copies int)
}

// What each connection and each rail has of control messages and datagrams, at a time.
const (
	messageRecvs  = 32 // more than a peer sends while this rail pauses; what exceeds it waits at the peer
	messageSends  = 16
	datagramRecvs = 128
	datagramSends = 64
)

// maxDepth keeps what is in flight countable in the index of a [workID].
const maxDepth = 1 << 15

func (cfg Config) withDefaults() Config {
	orDefault(&cfg.Port, 1)
	orDefault(&cfg.WriteDepth, 256)
	orDefault(&cfg.Immediates, 256)
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

// validate checks a Config with its defaults filled in, before the device is opened.
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
	switch {
	case cfg.WriteDepth < 4 || cfg.WriteDepth > maxDepth:
		return invalid("WriteDepth is %d: 4 to %d are possible", cfg.WriteDepth, maxDepth)
	case cfg.Immediates < 2 || cfg.Immediates > maxDepth:
		return invalid("Immediates is %d: 2 to %d are possible", cfg.Immediates, maxDepth)
	case cfg.PeerTimeout < 3*cfg.Heartbeat:
		return invalid("PeerTimeout of %v is less than three times the Heartbeat of %v", cfg.PeerTimeout, cfg.Heartbeat)
	case cfg.Connection.RNRRetry != 0 && cfg.Connection.RNRRetry != 7:
		return invalid("Connection.RNRRetry is %d: only 7, without end, survives a pause of the peer", cfg.Connection.RNRRetry)
	case cfg.CompletionDepth < 0:
		return invalid("CompletionDepth is %d: it cannot be negative", cfg.CompletionDepth)
	}
	return nil
}

// perPeer is how many completions one peer can have outstanding.
func (cfg *Config) perPeer() int {
	return cfg.WriteDepth + cfg.Immediates + messageSends + messageRecvs
}

// completionDepth is the depth of the completion queue on a device.
func (cfg *Config) completionDepth(device string, attr verbs.DeviceAttr) (int, error) {
	depth := cfg.CompletionDepth
	if depth == 0 {
		depth = min(1<<16, attr.MaxCQE)
	}
	if least := ownCompletions + cfg.perPeer(); depth < least {
		return 0, invalid("a completion queue of %d has no room for one peer: %d are needed with WriteDepth %d and "+
			"Immediates %d (%s takes %d)", depth, least, cfg.WriteDepth, cfg.Immediates, device, attr.MaxCQE)
	}
	return depth, nil
}

// ownCompletions is what the rail itself can have outstanding: its datagrams, and as many again of the time before the
// datagram queue pair had to be reset.
const ownCompletions = 2 * (datagramRecvs + datagramSends)

func invalid(format string, args ...any) error {
	return fmt.Errorf("verbsrail: "+format+": %w", append(args, syscall.EINVAL)...)
}

var _ rail.Opener = Config{}
