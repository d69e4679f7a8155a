package wire_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

var sharedKey = []byte("0123456789abcdef")

// greeted are the two ends of a connection after Hello and Challenge, with the keys, and the receiver's socket.
func greeted(t *testing.T, senderKey, receiverKey []byte) (sender, receiver *wire.Conn, socket net.Conn) {
	t.Helper()
	a, b := sockets(t)
	sender, receiver = wire.NewConn(a, patience), wire.NewConn(b, patience)
	require.NoError(t, sender.Send(&wire.Hello{Nonce: nonce(1), Keyed: senderKey != nil}))
	_, err := receiver.Receive()
	require.NoError(t, err)
	require.NoError(t, receiver.Send(&wire.Challenge{Nonce: nonce(2), Keyed: receiverKey != nil}))
	_, err = sender.Receive()
	require.NoError(t, err)
	require.NoError(t, sender.Authenticate(senderKey, true))
	require.NoError(t, receiver.Authenticate(receiverKey, false))
	return sender, receiver, b
}

// TestAuthentication: two ends with one key understand each other.
func TestAuthentication(t *testing.T) {
	sender, receiver, _ := greeted(t, sharedKey, sharedKey)
	all := messages()
	for _, step := range []struct {
		from, to *wire.Conn
		name     string
	}{
		{sender, receiver, "request"}, {receiver, sender, "wait"}, {receiver, sender, "welcome"}, {sender, receiver, "end"},
	} {
		before := step.to.Bytes()
		require.NoError(t, step.from.Send(all["file-"+step.name]))
		got, err := step.to.Receive()
		require.NoError(t, err)
		require.Equal(t, all["file-"+step.name], got)
		require.Equal(t, int64(len(golden(t, "file-keyed-"+step.name))), step.to.Bytes()-before)
	}

	sum := sha256.Sum256([]byte("content"))
	sealed := sender.Seal(7, sum)
	require.Equal(t, golden(t, "file-keyed-seal"), sealed[:])
	plain, _, _ := greeted(t, nil, nil)
	require.Equal(t, sum, plain.Seal(7, sum), "without a key there is nothing to seal with")
}

// requireBytes wants these bytes next on the connection.
func requireBytes(t *testing.T, conn net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
}

// TestGoldenKeyedMessages compares the bytes of an authenticated session with those that another implementation computed.
func TestGoldenKeyedMessages(t *testing.T) {
	a, b := sockets(t)
	sender := wire.NewConn(a, patience)
	require.NoError(t, sender.Send(&wire.Hello{Nonce: nonce(1), Keyed: true}))
	requireBytes(t, b, golden(t, "file-keyed-hello"))
	_, err := b.Write(golden(t, "file-challenge"))
	require.NoError(t, err)
	_, err = sender.Receive()
	require.NoError(t, err)
	require.NoError(t, sender.Authenticate(sharedKey, true))
	for _, name := range []string{"request", "end"} {
		require.NoError(t, sender.Send(messages()["file-"+name]))
		requireBytes(t, b, golden(t, "file-keyed-"+name))
	}
	for _, name := range []string{"wait", "welcome"} {
		_, err := b.Write(golden(t, "file-keyed-"+name))
		require.NoError(t, err)
		m, err := sender.Receive()
		require.NoError(t, err)
		require.Equal(t, messages()["file-"+name], m)
	}
}

// TestOtherKey: neither end believes one that has another key, or none.
func TestOtherKey(t *testing.T) {
	other := bytes.Repeat([]byte("x"), wire.MinKey)
	for _, keys := range [][2][]byte{{other, sharedKey}, {nil, sharedKey}} {
		sender, receiver, _ := greeted(t, keys[0], keys[1])
		require.NoError(t, sender.Send(messages()["file-request"]))
		_, err := receiver.Receive()
		require.ErrorIs(t, err, wire.ErrKey)
	}
	for _, keys := range [][2][]byte{{sharedKey, other}, {sharedKey, nil}} {
		sender, receiver, _ := greeted(t, keys[0], keys[1])
		require.NoError(t, receiver.Send(messages()["file-welcome"]))
		_, err := sender.Receive()
		require.ErrorIs(t, err, wire.ErrKey)
	}
	require.ErrorContains(t, wire.NewConn(nil, patience).Authenticate(make([]byte, wire.MinKey-1), true), "less than 16")
}

// TestAbortWithAnotherKey: who has another key may say why it gives up, but not once the right one has spoken.
func TestAbortWithAnotherKey(t *testing.T) {
	sender, receiver, _ := greeted(t, sharedKey, nil)
	require.NoError(t, receiver.Send(messages()["file-abort"]))
	m, err := sender.Receive()
	require.NoError(t, err)
	require.Equal(t, messages()["file-abort"], m)

	sender, receiver, socket := greeted(t, sharedKey, sharedKey)
	require.NoError(t, receiver.Send(messages()["file-wait"]))
	_, err = sender.Receive()
	require.NoError(t, err)
	_, err = socket.Write(golden(t, "file-abort"))
	require.NoError(t, err)
	_, err = sender.Receive()
	require.ErrorIs(t, err, wire.ErrKey)
}

// TestChangedMessages: a message that was changed, repeated, left out, reflected, or recorded in another session is refused.
func TestChangedMessages(t *testing.T) {
	request, end := golden(t, "file-keyed-request"), golden(t, "file-keyed-end")
	receive := func(messages ...[]byte) error {
		a, b := sockets(t)
		receiver := wire.NewConn(b, patience)
		_, err := a.Write(golden(t, "file-keyed-hello"))
		require.NoError(t, err)
		_, err = receiver.Receive()
		require.NoError(t, err)
		require.NoError(t, receiver.Send(&wire.Challenge{Nonce: nonce(2), Keyed: true}))
		require.NoError(t, receiver.Authenticate(sharedKey, false))
		for _, m := range messages {
			_, err := a.Write(m)
			require.NoError(t, err)
		}
		for range messages {
			if _, err = receiver.ReceiveBy(time.Now().Add(patience)); err != nil {
				break
			}
		}
		return err
	}
	require.NoError(t, receive(request, end))
	require.ErrorIs(t, receive(request, request), wire.ErrKey, "repeated")
	require.ErrorIs(t, receive(end), wire.ErrKey, "one was left out")
	require.ErrorIs(t, receive(golden(t, "file-keyed-welcome")), wire.ErrKey, "the other direction's")
	for i := range request {
		changed := bytes.Clone(request)
		changed[i] ^= 1
		if size := binary.BigEndian.Uint32(changed[8:]); int(size) > len(request) {
			continue // which is waited for
		}
		require.Error(t, receive(changed), "byte %d", i)
	}
	// The same session, but for one bit of a nonce.
	a, b := sockets(t)
	receiver := wire.NewConn(b, patience)
	_, err := a.Write(append(golden(t, "file-keyed-hello"), request...))
	require.NoError(t, err)
	_, err = receiver.Receive()
	require.NoError(t, err)
	challenge := &wire.Challenge{Nonce: nonce(2), Keyed: true}
	challenge.Nonce[0] ^= 1
	require.NoError(t, receiver.Send(challenge))
	require.NoError(t, receiver.Authenticate(sharedKey, false))
	_, err = receiver.Receive()
	require.ErrorIs(t, err, wire.ErrKey, "of another session")
}
