package verbs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// The examples of the documentation, on a device.
func TestExamplePingPong(t *testing.T) {
	ctx, err := verbs.Open(rdmatest.Device(t))
	require.NoError(t, err)
	closeAtEnd(t, ctx)
	answer, err := pingPong(ctx)
	require.NoError(t, err)
	require.Equal(t, "ping, pong", answer)
}

// By every address of the port, IPv4 and IPv6.
func TestExampleEcho(t *testing.T) {
	ctx, err := verbs.Open(rdmatest.Device(t))
	require.NoError(t, err)
	closeAtEnd(t, ctx)
	table, err := ctx.GIDTable()
	require.NoError(t, err)
	families := map[bool]bool{}
	for _, gid := range table {
		if gid.Port != 1 || gid.Type != verbs.GIDTypeRoCEv2 {
			continue
		}
		families[gid.GID.Addr().Is4()] = true
		answer, err := echo(ctx, gid, "hello "+gid.GID.String())
		require.NoError(t, err)
		require.Equal(t, "hello "+gid.GID.String(), answer)
	}
	require.Len(t, families, 2, "%s", verbs.FormatGIDTable(table))
}

func TestExampleScatter(t *testing.T) {
	n := newNode(t)
	const block = 1024
	source, sourceMR := n.region(t, 4*block, verbs.AccessLocalWrite)
	fill(source, 1)
	target, targetMR := n.region(t, 4*block, allAccess)
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 64})
	require.NoError(t, err)
	closeAtEnd(t, cq)
	sender := *n
	sender.cq = cq
	var peers []scatterPeer
	for i := range 4 {
		a, b := sender.queuePairOf(t, 4), n.queuePairOf(t, 4)
		n.connect(t, a, b)
		peers = append(peers, scatterPeer{a, targetMR.Addr() + uint64(i*block), targetMR.RKey()})
		_, err := b.PostRecv([]verbs.RecvWR{{ID: 100}}, nil)
		require.NoError(t, err)
	}
	s, err := newScatterer(cq, sourceMR, peers)
	require.NoError(t, err)
	closeAtEnd(t, s.template)
	require.NoError(t, s.scatter(block))
	poll(t, n.cq, 4)
	require.Equal(t, source, target)
}

func TestExampleServer(t *testing.T) {
	n := newNode(t)
	serverCQ, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 64, Events: true})
	require.NoError(t, err)
	closeAtEnd(t, serverCQ)
	const clients = 3
	served := make(chan string, clients)
	s := &server{cq: serverCQ, conns: map[uint32]*verbs.QP{}, serve: func(qp *verbs.QP, wc *verbs.WC) error {
		served <- fmt.Sprint(wc.Imm)
		return nil
	}}
	var senders []*verbs.QP
	for range clients {
		ofServer := *n
		ofServer.cq = serverCQ
		a, b := n.queuePair(t, verbs.RC), ofServer.queuePairOf(t, 8)
		n.connect(t, a, b)
		_, err := b.PostRecv([]verbs.RecvWR{{}}, nil)
		require.NoError(t, err)
		s.conns[b.Num()] = b
		senders = append(senders, a)
	}
	ctx, cancel := context.WithCancel(rdmatest.Context(t, 20*time.Second))
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	for i, a := range senders {
		_, err := a.PostSend([]verbs.SendWR{{Opcode: verbs.OpSendImm, Imm: uint32(i)}}, nil)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), <-served)
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// queuePairOf is an RC queue pair of such depths.
func (n *node) queuePairOf(t testing.TB, depth int) *verbs.QP {
	t.Helper()
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: depth, MaxRecvWR: depth})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	return qp
}

func (n *node) connect(t testing.TB, a, b *verbs.QP) {
	t.Helper()
	endA, err := a.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	endB, err := b.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, a.Connect(endB, verbs.ConnectConfig{}))
	require.NoError(t, b.Connect(endA, verbs.ConnectConfig{}))
}
