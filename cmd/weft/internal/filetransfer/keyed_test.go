package filetransfer_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// heldFile lets a test look at what it is given to write before it takes it.
type heldFile struct {
	filetransfer.File
	given   chan []byte
	release chan struct{}
}

func (f *heldFile) Write(p []byte) (int, error) {
	f.given <- p
	<-f.release
	return f.File.Write(p)
}

// TestWindowIsReadOnce: with a key, who reads the wire can write into the window of a transfer. What is stored is what was hashed,
// whatever is written after the slot was taken.
func TestWindowIsReadOnce(t *testing.T) {
	const start, data = 1, 2
	var stored bytes.Buffer
	f := &heldFile{File: discard{&stored}, given: make(chan []byte), release: make(chan struct{})}
	key := []byte("correct horse battery staple")
	end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Key: key,
		Folder: folder{create: func(inbox.Entry) (filetransfer.File, error) { return f, nil }}})
	t.Cleanup(func() { close(f.release) })
	h := newHostile(t, end, "sender", key...)
	require.NoError(t, h.conn.Send(&wire.File{Name: "file", Size: 100, Mode: 0o600}))
	require.IsType(t, &wire.Accept{}, afterWaiting(t, h.conn))
	h.write(records(start, []uint64{0, 0}, data, "what was sent"))
	given := <-f.given
	h.overwrite(records(start, []uint64{0, 0}, data, "what was made"))
	require.Equal(t, "what was sent", string(given))
}

// overwrite writes the slot that was written last again, without a word to the receiver.
func (h *hostile) overwrite(b []byte) {
	h.t.Helper()
	copy(h.region.Bytes(), b)
	var transfer transferengine.Transfer
	require.NoError(h.t, h.engine.Write(&transfer, transferengine.Write{Peer: h.peer, Source: h.region, Dest: &h.window,
		DestOffset: uint64((h.written - 1) % (window / slot) * slot), Length: slot}))
	require.NoError(h.t, transfer.Wait(rdmatest.Context(h.t, patience)))
}
