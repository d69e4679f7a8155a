package fabricrail

import (
	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Control is a control message for the connection of a peer: without its secret, or with it.
func (r *Rail) Control(peer rail.PeerID, kind byte, value uint64, genuine bool) []byte {
	c := r.peers[peer]
	m := control{kind: controlKind(kind), tag: c.tag, immediates: 1 << 40, messages: 1 << 40, value: value}
	if genuine {
		m.immediates, m.messages, m.secret = c.granted, c.mayMessage, c.secret
	}
	b := make([]byte, controlSize)
	m.put(b)
	return b
}

// SecretOffset is where a control message has its secret.
const SecretOffset = 32

// Arrived gives the rail a message as if it had just come.
func (r *Rail) Arrived(from rail.PeerID, message []byte) {
	for _, q := range r.queues {
		if q.isOf(r.peers[from]) {
			r.controlled(q, message)
			return
		}
	}
}

// Datagrams is the config of a rail over libfabric's reliable datagrams.
func Datagrams(cfg Config) Config {
	cfg.datagrams = true
	return cfg
}

// SendTo sends anything to a rail, which need not know this one. It returns false while there is no room.
func (r *Rail) SendTo(to, message []byte) (bool, error) {
	a, err := parseAddress(to)
	if err != nil {
		return false, err
	}
	return railEffects{r}.Send(a, message)
}

// FreeSends is how many messages the rail could send at once.
func (r *Rail) FreeSends() int { return len(r.mailbox.free) }

// EndpointName is the name of the rail's endpoint, in the provider's own form.
func (r *Rail) EndpointName() []byte { return []byte(r.self.name) }

// AddressOver is the rail's address if it had another provider.
func (r *Rail) AddressOver(provider string) []byte {
	a := r.self
	a.provider = provider
	return a.append(nil)
}

// SleepWithoutDescriptor makes the rail sleep as one does whose provider has no descriptor.
func (r *Rail) SleepWithoutDescriptor() { r.sleeping.on = nil }

// Exhaust takes all buffers for messages, and gives them back.
func (r *Rail) Exhaust() (release func()) {
	free := r.mailbox.free
	r.mailbox.free = nil
	return func() { r.mailbox.free = append(r.mailbox.free, free...) }
}

// HelloOf is a hello to the rail in the name of an endpoint that wants an answer.
func (r *Rail) HelloOf(endpoint []byte) []byte {
	return wire.AppendHello(nil, &hello{From: address{provider: r.self.provider, name: string(endpoint), key: 1}, To: r.self.key,
		Nonce: 1, Attempt: 1, AckWanted: true,
		Half: half{tag: 1, secret: secret{1}, immediates: 1, messages: 1, message: rail.MinSend}})
}

// RequestOf is a request to the rail for a connection, in the name of an endpoint.
func (r *Rail) RequestOf(endpoint []byte) []byte {
	return request{address{provider: r.self.provider, name: string(endpoint), key: 1}, r.self.key}.pad()
}

// HelloArrived gives the rail a hello as if it had just come.
func (r *Rail) HelloArrived(message []byte) { r.handshake.Handle(r.now, message, nil) }

// Calling tells whether the rail makes a connection.
func (r *Rail) Calling() bool { return r.handshake.Calling() }

// CheckInfo says why a provider that offers this cannot be a rail. It carries data beside a write as CQDataSize says.
func CheckInfo(info fabric.Info) error {
	r := &Rail{traits: traits{tagged: info.CQDataSize >= 8}}
	return r.describe(&info)
}

// Cut ends the rail's connections as the network does, and returns how many those are.
func (r *Rail) Cut() (n int) {
	t := r.transport.(*connected)
	for _, l := range t.all {
		name, err := l.ep.Name()
		if err != nil {
			continue
		}
		at, _ := socketAddress(name)
		peer, err := l.ep.Peer()
		if err != nil {
			continue
		}
		remote, _ := socketAddress(peer)
		for _, s := range sockets(t.strangers.folder, at) {
			if s.remote == remote {
				s.end()
				n++
			}
		}
	}
	return n
}

// Links is how many connections the rail has.
func (r *Rail) Links() int { return len(r.transport.(*connected).all) }
