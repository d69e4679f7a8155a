//go:build !rxe

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

// attacks are what strangers do. Each call is one attempt, or a handful, which ends soon.
var attacks = []struct {
	name   string
	keyed  *bool // nil: receivers with and without a key
	attack func(*target, *rand.Rand)
	lasts  time.Duration // longer attacks have it alone
}{
	{"connections that say nothing", nil, idle, 0},
	{"half a message, and a reset", nil, halfOpen, 0},
	{"a byte now and then", nil, slow, 0},
	{"bytes of other protocols, and none", nil, garbage, 0},
	{"other versions", nil, versions, 0},
	{"hostile bytes at every state", nil, states, 0},
	{"lengths that are too large", nil, lengths, 0},
	{"guessed keys", yes(true), guessedKeys, 0},
	{"recorded sessions", yes(true), replays, 0},
	{"changed messages", yes(true), changed, 0},
	{"guessed keys of memory", yes(false), guessedMemory, 0},
	{"hostile bytes in the window", yes(false), hostileWindow, 0},
	{"seats that are not used", yes(false), hogs, 30 * time.Second},
	{"engines of somebody else", yes(false), somebodyElse, 0},
	{"the data port", nil, dataPortBytes, 0},
}

func yes(is bool) *bool { return &is }

// from dials the receiver from one of the addresses of the loopback: half of the time from that of the honest senders.
func from(address string, random *rand.Rand) (net.Conn, error) {
	host := byte(1)
	if random.IntN(2) == 0 {
		host = byte(2 + random.IntN(200))
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}, Timeout: rdmatest.Deadline(10 * time.Second)}
	return d.Dial("tcp", address)
}

// requireEnd reads until the receiver ends the connection, and returns what came. A connection that it keeps is a failure.
func (g *target) requireEnd(conn net.Conn, what string) []byte {
	_ = conn.SetReadDeadline(time.Now().Add(rdmatest.Deadline(30 * time.Second)))
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.t.Errorf("the receiver keeps a connection: %s", what)
	}
	return answer
}

// tell sends bytes and waits until the receiver ends the connection.
func (g *target) tell(random *rand.Rand, b []byte, what string) (answer []byte) {
	conn, err := from(g.address, random)
	if err != nil {
		return nil // the machine is busy
	}
	defer conn.Close()
	_, _ = conn.Write(b) // it may have had enough already
	return g.requireEnd(conn, what)
}

func idle(g *target, random *rand.Rand) {
	var all sync.WaitGroup
	for range 80 {
		conn, err := from(g.address, random)
		if err != nil {
			continue
		}
		all.Go(func() {
			defer conn.Close()
			g.requireEnd(conn, "idle")
		})
	}
	all.Wait()
}

func halfOpen(g *target, random *rand.Rand) {
	for range 20 {
		conn, err := from(g.address, random)
		if err != nil {
			continue
		}
		b := encoded(g, &wire.Hello{Nonce: wire.NewNonce()})
		_, _ = conn.Write(b[:random.IntN(len(b))])
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

func slow(g *target, random *rand.Rand) {
	conn, err := from(g.address, random)
	if err != nil {
		return
	}
	defer conn.Close()
	start := time.Now()
	for _, b := range encoded(g, &wire.Hello{Nonce: wire.NewNonce()}) {
		if _, err := conn.Write([]byte{b}); err != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
	if took := time.Since(start); took > rdmatest.Deadline(5*time.Second) {
		g.t.Errorf("a greeting of a byte at a time was listened to for %v", took)
	}
}

func garbage(g *target, random *rand.Rand) {
	b := []byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	switch random.IntN(4) {
	case 0:
		b = []byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03} // TLS
	case 1:
		b = make([]byte, random.IntN(1<<16))
	case 2:
		b = make([]byte, random.IntN(1<<14))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
	}
	g.tell(random, b, "garbage")
}

// encoded is a message in its wire format.
func encoded(g *target, m wire.Message) []byte {
	b, err := wire.Encode(m)
	noError(g.t, err)
	return b
}

// versions says hello in other versions, and everything that version 1 had.
func versions(g *target, random *rand.Rand) {
	hello := encoded(g, &wire.Hello{Nonce: wire.NewNonce()})
	hello[4], hello[5] = byte(random.Uint32()), byte(random.Uint32())
	g.tell(random, hello, "a version")
	names, err := filepath.Glob("../../testdata/wire/v1/file-*.golden")
	if !noError(g.t, err) || len(names) == 0 {
		g.t.Error("no golden bytes of version 1")
		return
	}
	text, err := os.ReadFile(names[random.IntN(len(names))])
	noError(g.t, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	noError(g.t, err)
	g.tell(random, b, "version 1")
}

func lengths(g *target, random *rand.Rand) {
	b := encoded(g, &wire.Hello{Nonce: wire.NewNonce()})
	if random.IntN(2) == 0 {
		binary.BigEndian.PutUint32(b[8:], random.Uint32()|1<<14)
	} else {
		binary.BigEndian.PutUint16(b[14:], uint16(random.Uint32()))
	}
	g.tell(random, append(b, make([]byte, random.IntN(1<<16))...), "a length")
}

// greets is a sender up to its Request, with the key that is given. Nil: it did not get there.
func (g *target) greets(random *rand.Rand, key []byte) (*wire.Conn, net.Conn) {
	conn, err := from(g.address, random)
	if err != nil {
		return nil, nil
	}
	w := wire.NewConn(conn, rdmatest.Deadline(10*time.Second))
	if w.Send(&wire.Hello{Nonce: wire.NewNonce(), Keyed: len(key) > 0}) == nil {
		if m, err := w.ReceiveBy(time.Now().Add(rdmatest.Deadline(10 * time.Second))); err == nil {
			if _, ok := m.(*wire.Challenge); ok && w.Authenticate(key, true) == nil {
				return w, conn
			}
		}
	}
	_ = conn.Close()
	return nil, nil
}

// states gets as far as a state, as a peer that has the key can, and says there what does not belong: a message with a few
// changed bytes, or one that is not due.
func states(g *target, random *rand.Rand) {
	hello := &wire.Hello{Nonce: wire.NewNonce(), Keyed: g.key != nil}
	messages := []wire.Message{hello, &wire.Challenge{}, &wire.Request{Engine: []byte("x"), Credits: []byte("x")},
		&wire.Wait{Place: 1}, &wire.Welcome{Engine: []byte("x"), Window: []byte("x"), SlotSize: 1, Slots: 1}, &wire.File{Name: "x"},
		&wire.Answer{}, &wire.End{}, &wire.Abort{Text: "\x1b[2J"}}
	m := messages[random.IntN(len(messages))]
	b := encoded(g, m)
	for range random.IntN(4) {
		b[random.IntN(len(b))] = byte(random.Uint32())
	}
	if random.IntN(2) == 0 {
		g.tell(random, append(b, b...), "at the door")
		return
	}
	w, conn := g.greets(random, g.key)
	if w == nil {
		return
	}
	defer conn.Close()
	if random.IntN(2) == 0 {
		_ = w.Send(m)
	} else {
		_, _ = conn.Write(b)
	}
	g.requireEnd(conn, "before its request")
}

// requireNoWelcome wants nobody without the key to be let in.
func (g *target) requireNoWelcome(answer []byte, what string) {
	if bytes.Contains(answer, []byte("WfWE")) || bytes.Contains(answer, []byte("WfWA")) {
		g.t.Errorf("%s was let in", what)
	}
}

func guessedKeys(g *target, random *rand.Rand) {
	key := bytes.Clone(g.key)
	switch random.IntN(3) {
	case 0:
		key[random.IntN(len(key))] ^= 1 << random.IntN(8)
	case 1:
		key = append(key, 0)
	case 2:
		key = key[:len(key)-1]
	}
	w, conn := g.greets(random, key)
	if w == nil {
		return
	}
	defer conn.Close()
	_ = w.Send(&wire.Request{Engine: []byte("x"), Credits: []byte("x")})
	g.requireNoWelcome(g.requireEnd(conn, "a guessed key"), "a guessed key")
}

// replays records the messages of a sender that has the key, up to its Request, and sends them again.
func replays(g *target, random *rand.Rand) {
	near, far := net.Pipe()
	defer near.Close()
	var said bytes.Buffer
	go func() {
		defer far.Close()
		conn, err := from(g.address, random)
		if err != nil {
			return
		}
		defer conn.Close()
		go func() {
			_, _ = io.Copy(far, conn)
			_ = far.Close()
		}()
		_, _ = io.Copy(conn, io.TeeReader(far, &said))
	}()
	w := wire.NewConn(near, rdmatest.Deadline(10*time.Second))
	if w.Send(&wire.Hello{Nonce: wire.NewNonce(), Keyed: true}) != nil {
		return
	}
	if _, err := w.ReceiveBy(time.Now().Add(rdmatest.Deadline(10 * time.Second))); err != nil {
		return
	}
	noError(g.t, w.Authenticate(g.key, true))
	_ = w.Send(&wire.Request{Engine: []byte("x"), Credits: []byte("x")})
	_, _ = io.Copy(io.Discard, near)
	recorded := bytes.Clone(said.Bytes())
	answer := g.tell(random, recorded, "a recorded session")
	g.requireNoWelcome(answer, "a recorded session")
	if !bytes.Contains(answer, []byte("does not have the same key")) && len(answer) > 100 {
		g.t.Errorf("a recorded session was not refused for its key: %q", answer)
	}
}

// changed has the key, and somebody changes a byte of its Request on the way.
func changed(g *target, random *rand.Rand) {
	conn, err := from(g.address, random)
	if err != nil {
		return
	}
	defer conn.Close()
	w := wire.NewConn(&flipped{Conn: conn, random: random}, rdmatest.Deadline(10*time.Second))
	if w.Send(&wire.Hello{Nonce: wire.NewNonce(), Keyed: true}) != nil {
		return
	}
	if _, err := w.ReceiveBy(time.Now().Add(rdmatest.Deadline(10 * time.Second))); err != nil {
		return
	}
	noError(g.t, w.Authenticate(g.key, true))
	_ = w.Send(&wire.Request{Engine: []byte("x"), Credits: []byte("x")})
	g.requireNoWelcome(g.requireEnd(conn, "a changed message"), "a changed message")
}

// flipped changes a byte of the second write.
type flipped struct {
	net.Conn
	random *rand.Rand
	writes int
}

func (f *flipped) Write(p []byte) (int, error) {
	if f.writes++; f.writes == 2 {
		p = bytes.Clone(p)
		at := 12 + f.random.IntN(len(p)-12) // not the length, which would be waited for
		p[at] ^= 1 << f.random.IntN(8)
	}
	return f.Conn.Write(p)
}

// intruder is a stranger that greets like a sender and has a seat.
type intruder struct {
	engine *transferengine.Engine
	region *transferengine.Region
	conn   net.Conn
	said   *wire.Conn
	window []byte // the descriptor
	peer   *transferengine.Peer
}

// intrude gets a seat at a receiver without a key; nil if there is none. What it returns must be closed.
func (g *target) intrude(host byte) *intruder {
	ip := net.IPv4(127, 0, 0, host)
	engine, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{fabricrail.Config{Provider: "tcp", Node: ip.String()}},
		TransferTimeout: 5 * time.Second, CloseTimeout: 5 * time.Second})
	if !noError(g.t, err) {
		return nil
	}
	in := &intruder{engine: engine}
	if in.region, err = engine.Register(make([]byte, 4096), transferengine.RemoteWrite); err == nil {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}, Timeout: rdmatest.Deadline(10 * time.Second)}
		in.conn, err = d.Dial("tcp", g.address)
	}
	if err == nil && in.greet(g) {
		return in
	}
	in.close(g)
	return nil
}

func (in *intruder) greet(g *target) bool {
	in.said = wire.NewConn(in.conn, rdmatest.Deadline(10*time.Second))
	if in.said.Send(&wire.Hello{Nonce: wire.NewNonce()}) != nil {
		return false
	}
	if _, err := in.said.ReceiveBy(time.Now().Add(rdmatest.Deadline(10 * time.Second))); err != nil {
		return false
	}
	noError(g.t, in.said.Authenticate(nil, true))
	welcome := g.welcomed(in.said, in.engine, in.region)
	if welcome == nil {
		return false
	}
	in.window = welcome.Window
	var address transferengine.Address
	noError(g.t, address.UnmarshalBinary(welcome.Engine))
	var err error
	in.peer, err = in.engine.Connect(rdmatest.Context(g.t, patience), address)
	return err == nil
}

func (in *intruder) close(g *target) {
	if in.conn != nil {
		_ = in.conn.Close()
	}
	if in.region != nil {
		ctx, cancel := context.WithTimeout(context.Background(), rdmatest.Deadline(10*time.Second))
		defer cancel()
		_ = in.engine.Shutdown(ctx) // which ends what is under way
		noError(g.t, in.region.Close())
	}
	noError(g.t, in.engine.Close())
}

// write writes to a descriptor in its wire format, and returns how that ended.
func (in *intruder) write(g *target, descriptor []byte, w transferengine.Write) error {
	var dest transferengine.Descriptor
	noError(g.t, dest.UnmarshalBinary(descriptor))
	w.Peer, w.Source, w.Dest = in.peer, in.region, &dest
	var transfer transferengine.Transfer
	if err := in.engine.Write(&transfer, w); err != nil {
		return err
	}
	return transfer.Wait(rdmatest.Context(g.t, patience))
}

// guessedMemory guesses keys of memory that is not its own.
func guessedMemory(g *target, random *rand.Rand) {
	in := g.intrude(1)
	if in == nil {
		return
	}
	defer in.close(g)
	for in.peer.Err() == nil { // a wrong key costs the session
		b := bytes.Clone(in.window)
		key := binary.BigEndian.Uint64(b[len(b)-8:])
		switch random.IntN(3) {
		case 0:
			key += uint64(random.IntN(64)) - 32
		case 1:
			key ^= 1 << random.IntN(64)
		case 2:
			key = random.Uint64()
		}
		binary.BigEndian.PutUint64(b[len(b)-8:], key)
		if bytes.Equal(b, in.window) {
			continue
		}
		if in.write(g, b, transferengine.Write{Length: 4096}) == nil {
			g.t.Errorf("a guessed key of memory was taken: %#x", key)
			return
		}
	}
}

// hostileWindow writes what is no record into the window, and says that it is there.
func hostileWindow(g *target, random *rand.Rand) {
	in := g.intrude(byte(2 + random.IntN(200)))
	if in == nil {
		return
	}
	defer in.close(g)
	if random.IntN(2) == 0 {
		_ = in.said.Send(&wire.File{Name: "hostile"})
	}
	for i := range in.region.Bytes() {
		in.region.Bytes()[i] = byte(random.Uint32())
	}
	for slot := range uint32(4) {
		_ = in.write(g, in.window, transferengine.Write{DestOffset: uint64(slot) * 4096, Length: uint64(1 + random.IntN(4096)),
			Imm: random.Uint32N(20), HasImm: true})
	}
	_ = in.said.Send(&wire.End{})
	g.requireEnd(in.conn, "hostile bytes in the window")
}

// hogs takes all seats and says nothing until they are taken away.
func hogs(g *target, _ *rand.Rand) {
	var all sync.WaitGroup
	for range filetransfer.DefaultSeats + 2 {
		all.Go(func() {
			if in := g.intrude(201); in != nil {
				g.requireEnd(in.conn, "a seat that is not used")
				in.close(g)
			}
		})
	}
	all.Wait()
}

// welcomed asks for a seat; nil if there is none.
func (g *target) welcomed(w *wire.Conn, engine *transferengine.Engine, region *transferengine.Region) *wire.Welcome {
	address, err := engine.Address().MarshalBinary()
	noError(g.t, err)
	credits, err := region.Descriptor().MarshalBinary()
	noError(g.t, err)
	if w.Send(&wire.Request{Engine: address, Credits: credits}) != nil {
		return nil
	}
	for {
		m, err := w.ReceiveBy(time.Now().Add(rdmatest.Deadline(20 * time.Second)))
		if err != nil {
			return nil
		}
		switch m := m.(type) {
		case *wire.Welcome:
			return m
		case *wire.Wait:
		default:
			return nil
		}
	}
}

// somebodyElse gives the address of another host's engine: the receiver must not go there.
func somebodyElse(g *target, random *rand.Rand) {
	listens := netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(random.Uint32())}), uint16(1+random.IntN(1<<15)))
	engine, err := overSockets(g.t, "tcp", listens.String(), 0).MarshalBinary()
	noError(g.t, err)
	w, conn := g.greets(random, nil)
	if w == nil {
		return
	}
	defer conn.Close()
	_ = w.Send(&wire.Request{Engine: engine, Credits: memoryOfNobody()})
	if answer := g.requireEnd(conn, "somebody else's engine"); len(answer) > 0 && !bytes.Contains(answer, []byte("--any-host")) {
		g.t.Errorf("an engine at %v was answered with %q", listens, answer)
	}
}

// memoryOfNobody is a descriptor of the engine whose incarnation is all zeros.
func memoryOfNobody() []byte {
	b := (&tlv.Format{Magic: [4]byte([]byte("WtDS")), Version: 1, MinVersion: 1}).Begin(nil)
	for i, value := range [][]byte{make([]byte, 16), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 4096), 4096),
		{byte(transferengine.RemoteWrite)}, {0, 0, 0, 0, 0, 0, 0, 1}, make([]byte, 8)} {
		b = tlv.AppendField(b, uint16(i+1)|tlv.Required, value)
	}
	return tlv.Finish(b)
}

func dataPortBytes(g *target, random *rand.Rand) {
	conn, err := from(g.data, random)
	if err != nil {
		return
	}
	defer conn.Close()
	b := make([]byte, random.IntN(600))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	_, _ = conn.Write(b)
	g.requireEnd(conn, "the data port")
}
