package verbs_test

import (
	"bufio"
	"context"
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

// playPeer is the other end of a two-process test: it connects, offers memory, and stays until its input ends. Its second
// argument says what it does meanwhile.
func playPeer(args []string) int {
	ctx, err := verbs.Open(args[0])
	if err == nil {
		defer ctx.Close()
		err = peerOn(ctx, append(args, peerIdle)[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// What a peer does.
const (
	peerIdle      = "idle"
	peerWrites    = "writes"    // answers each 8-byte write of a new number with the same
	peerSends     = "sends"     // answers each send with one
	peerEvents    = "events"    // likewise, and sleeps meanwhile
	peerDatagrams = "datagrams" // likewise, by datagrams
	peerSink      = "sink"      // takes datagrams
)

// peerQP is the queue pair of an end that does this.
func peerQP(pd *verbs.PD, cq *verbs.CQ, mode string) (*verbs.QP, error) {
	cfg := verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: benchDepth, MaxRecvWR: benchDepth}
	if mode == peerDatagrams || mode == peerSink {
		cfg.Type = verbs.UD
	}
	return pd.CreateQP(cfg)
}

// begin brings a queue pair to where it has an address.
func begin(qp *verbs.QP, gid verbs.GIDEntry) (verbs.Endpoint, error) {
	if qp.Type() == verbs.UD {
		return verbs.Endpoint{QPN: qp.Num(), GID: gid.GID}, qp.Activate(gid.Port, qkey)
	}
	return qp.Init(gid, remoteAccess)
}

func peerOn(ctx *verbs.Context, mode string) error {
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
	cq, err := ctx.CreateCQ(verbs.CQConfig{Depth: 2 * benchDepth, Events: true})
	if err != nil {
		return err
	}
	defer cq.Close()
	qp, err := peerQP(pd, cq, mode)
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
	end, err := begin(qp, gid)
	if err != nil {
		return err
	}
	m := &messenger{qp: qp, cq: cq, mr: mr, sleeps: mode == peerEvents}
	if mode != peerIdle && mode != peerWrites {
		if err := m.fill(); err != nil {
			return err
		}
	}
	in := bufio.NewReader(os.Stdin)
	other, err := exchange(hello{end, mr.Addr(), mr.RKey()}, os.Stdout, in)
	if err != nil {
		return err
	}
	if err := m.reach(pd, gid, other); err != nil {
		return err
	}
	defer m.close()
	fmt.Println("connected")
	return serve(m, mem, other, mode, in)
}

// serve does what the peer is for until the input ends.
func serve(m *messenger, mem []byte, other hello, mode string, in io.Reader) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { io.Copy(io.Discard, in); cancel() }()
	if !m.sleeps && mode != peerIdle {
		pin(0)
	}
	switch mode {
	case peerIdle:
		<-ctx.Done()
		return nil
	case peerWrites:
		return (&pinger{qp: m.qp, cq: m.cq, mem: mem, mr: m.mr, peer: other}).answer(ctx.Done())
	default:
		return m.answer(ctx, mode != peerSink)
	}
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

// joinPeer starts a peer process that does what mode says, and connects a new queue pair of the node to it.
func (n *node) joinPeer(t testing.TB, mr *verbs.MR, mode string) (*rdmatest.Child, *messenger, hello) {
	t.Helper()
	child := rdmatest.StartChild(t, "peer", n.ctx.Name(), mode)
	line, err := child.ReadLine(60 * time.Second)
	require.NoError(t, err)
	var peer hello
	require.NoError(t, json.Unmarshal([]byte(line), &peer))
	qp, err := peerQP(n.pd, n.cq, mode)
	require.NoError(t, err)
	closeAtEnd(t, qp)
	m := &messenger{qp: qp, cq: n.cq, mr: mr, sleeps: mode == peerEvents}
	end, err := begin(qp, n.gid)
	require.NoError(t, err)
	if mode != peerIdle && mode != peerWrites {
		require.NoError(t, m.fill())
	}
	mine, err := json.Marshal(hello{end, mr.Addr(), mr.RKey()})
	require.NoError(t, err)
	require.NoError(t, child.WriteLine(string(mine), 10*time.Second))
	require.NoError(t, m.reach(n.pd, n.gid, peer))
	t.Cleanup(func() { require.NoError(t, m.close()) })
	line, err = child.ReadLine(60 * time.Second)
	require.NoError(t, err)
	require.Equal(t, "connected", line)
	return child, m, peer
}

// With writes in flight to a peer that dies, the sender learns of it by retries that ran out, and everything posted
// completes.
func TestPeerProcessKilled(t *testing.T) {
	n := newNode(t)
	_, mr := n.region(t, peerSize, verbs.AccessLocalWrite)
	child, m, peer := n.joinPeer(t, mr, peerIdle)
	qp := m.qp
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
