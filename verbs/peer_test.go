package verbs_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// hello is what the ends of a two-process test tell each other, as a line of JSON.
type hello struct {
	End  verbs.Endpoint
	Addr uint64
	RKey uint32
}

// peerSize is how many bytes of memory a peer offers.
const peerSize = 1 << 20

// playPeer is the other end of a two-process test: it connects, offers memory, and stays until its input ends. With the
// argument "pong" it answers each 8-byte write of a new number with the same.
func playPeer(args []string) int {
	ctx, err := verbs.Open(args[0])
	if err == nil {
		defer ctx.Close()
		err = peerOn(ctx, len(args) > 1 && args[1] == "pong")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func peerOn(ctx *verbs.Context, pong bool) error {
	table, err := ctx.GIDTable()
	if err != nil {
		return err
	}
	gid, err := verbs.SelectGID(table, 1)
	if err != nil {
		return err
	}
	pd, err := ctx.AllocPD()
	if err != nil {
		return err
	}
	defer pd.Close()
	cq, err := ctx.CreateCQ(verbs.CQConfig{Depth: 256})
	if err != nil {
		return err
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 128})
	if err != nil {
		return err
	}
	defer qp.Close()
	mem := make([]byte, peerSize)
	mr, err := pd.RegMR(mem, remoteAccess)
	if err != nil {
		return err
	}
	defer mr.Close()
	end, err := qp.Init(gid, remoteAccess)
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	other, err := exchange(hello{end, mr.Addr(), mr.RKey()}, os.Stdout, in)
	if err != nil {
		return err
	}
	if err := qp.Connect(other.End, verbs.ConnectConfig{}); err != nil {
		return err
	}
	fmt.Println("connected")
	if pong {
		ends := make(chan struct{})
		go func() { io.Copy(io.Discard, in); close(ends) }()
		return (&pinger{qp: qp, cq: cq, mem: mem, mr: mr, peer: other}).answer(ends)
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// exchange says mine and hears theirs.
func exchange(mine hello, out io.Writer, in *bufio.Reader) (theirs hello, err error) {
	if err := json.NewEncoder(out).Encode(mine); err != nil {
		return theirs, err
	}
	line, err := in.ReadBytes('\n')
	if err != nil {
		return theirs, err
	}
	return theirs, json.Unmarshal(line, &theirs)
}

// joinPeer starts a peer process with the arguments and connects a new queue pair of the node to it.
func (n *node) joinPeer(t testing.TB, mr *verbs.MR, args ...string) (*rdmatest.Child, *verbs.QP, hello) {
	t.Helper()
	child := rdmatest.StartChild(t, "peer", append([]string{n.ctx.Name()}, args...)...)
	line, err := child.ReadLine(60 * time.Second)
	require.NoError(t, err)
	var peer hello
	require.NoError(t, json.Unmarshal([]byte(line), &peer))
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 128})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	end, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	mine, err := json.Marshal(hello{end, mr.Addr(), mr.RKey()})
	require.NoError(t, err)
	require.NoError(t, child.WriteLine(string(mine), 10*time.Second))
	require.NoError(t, qp.Connect(peer.End, verbs.ConnectConfig{}))
	line, err = child.ReadLine(60 * time.Second)
	require.NoError(t, err)
	require.Equal(t, "connected", line)
	return child, qp, peer
}

// With writes in flight to a peer that dies, the sender learns of it by retries that ran out, and everything posted
// completes.
func TestPeerProcessKilled(t *testing.T) {
	n := newNode(t)
	_, mr := n.region(t, peerSize, verbs.AccessLocalWrite)
	child, qp, peer := n.joinPeer(t, mr)
	write := func(id int) {
		_, err := qp.PostSend([]verbs.SendWR{{
			ID: uint64(id), Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, NumSGE: 1, RemoteAddr: peer.Addr, RKey: peer.RKey,
		}}, []verbs.SGE{sge(mr, 0, peerSize)})
		require.NoError(t, err)
	}
	write(0)
	require.NoError(t, poll(t, n.cq, 1)[0].Err(), "while it lives")
	// Half of them before and half after, since rxe carries out part of a write within its post. While the process is being
	// torn down its memory goes before its queue pair, so that a write then may see a remote access error instead.
	const inFlight = 16
	for i := range inFlight {
		if i == inFlight/2 {
			child.Kill()
			require.Error(t, child.Wait(10*time.Second))
		}
		write(i)
	}
	statuses := map[verbs.WCStatus]int{}
	for range inFlight {
		wc := poll(t, n.cq, 1)[0]
		statuses[wc.Status]++
		if wc.Status != verbs.WCSuccess && wc.Status != verbs.WCFlushed {
			require.NoError(t, qp.SetError())
		}
	}
	require.Equal(t, 1, statuses[verbs.WCRetryExceeded], "%v", statuses)
	require.Equal(t, inFlight-1, statuses[verbs.WCSuccess]+statuses[verbs.WCFlushed], "%v", statuses)
}
