package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// BenchmarkSendLatency sends 64 bytes to a peer process that answers with as many, and reports half of the round trip,
// median, as us/one-way: by reliable connection, by datagram, and by reliable connection with both ends asleep meanwhile.
func BenchmarkSendLatency(b *testing.B) {
	for _, mode := range []string{peerSends, peerDatagrams, peerEvents} {
		b.Run(mode, func(b *testing.B) {
			n := newNode(b)
			_, mr := n.region(b, peerSize, remoteAccess)
			child, m, _ := n.joinPeer(b, mr, mode)
			ctx := b.Context()
			if !m.sleeps {
				pin(1)
			}
			report(b, 2, "us/one-way", func() error {
				if err := m.send(); err != nil {
					return err
				}
				if err := m.restock(); err != nil { // while the message is on its way
					return err
				}
				return m.receive(ctx)
			})
			require.NoError(b, child.CloseInput())
		})
	}
}

// BenchmarkReadLatency reads 8 bytes of a peer process, and reports the median of the whole round trip as us/read.
func BenchmarkReadLatency(b *testing.B) {
	n := newNode(b)
	_, mr := n.region(b, peerSize, remoteAccess)
	_, m, peer := n.joinPeer(b, mr, peerIdle)
	w := newWriter(n.cq, m.qp, verbs.SendWR{Opcode: verbs.OpRead, RemoteAddr: peer.Addr, RKey: peer.RKey}, sge(mr, 0, 8), 1)
	pin(1)
	report(b, 1, "us/read", func() error { return w.run(1) })
}

// BenchmarkDatagrams sends datagrams of 64 bytes, one by one, to a peer process that takes them.
func BenchmarkDatagrams(b *testing.B) {
	n := newNode(b)
	_, mr := n.region(b, peerSize, remoteAccess)
	_, m, _ := n.joinPeer(b, mr, peerSink)
	w := newWriter(n.cq, m.qp, m.wr[0], m.from[0], 1)
	pin(1)
	require.NoError(b, w.warm())
	b.ResetTimer()
	require.NoError(b, w.run(b.N))
}

const messageSize = 64

// messenger is one end of a ping-pong by sends of 64 bytes. It sends from the start of its memory, and receives behind
// that.
type messenger struct {
	qp     *verbs.QP
	cq     *verbs.CQ
	mr     *verbs.MR
	sleeps bool // until an event, instead of polling

	wr   [1]verbs.SendWR
	from [1]verbs.SGE
	ah   *verbs.AH
	sent int
	wcs  [benchDepth]verbs.WC
	here int // messages that have come and were not asked for yet
	used int // receives whose places were not given back yet

	breath breath
	recvs  [benchDepth]verbs.RecvWR
	sges   [benchDepth]verbs.SGE
}

// fill posts as many receives as fit.
func (m *messenger) fill() error {
	for i := range m.recvs {
		m.recvs[i] = verbs.RecvWR{ID: recvID, NumSGE: 1}
		m.sges[i] = sge(m.mr, 4096, verbs.GRHSize+messageSize)
	}
	m.used = benchDepth
	return m.restock()
}

// restock gives the places of messages that have come back to the queue, a quarter of it at a time: a list costs one crossing.
func (m *messenger) restock() error {
	n := m.used
	if n < benchDepth/4 {
		return nil
	}
	m.used = 0
	_, err := m.qp.PostRecv(m.recvs[:n], m.sges[:n])
	return err
}

const recvID = 1 << 32

// reach connects the queue pair to the other end, or finds the way there.
func (m *messenger) reach(pd *verbs.PD, gid verbs.GIDEntry, other hello) (err error) {
	m.wr[0], m.from[0] = verbs.SendWR{Opcode: verbs.OpSend, NumSGE: 1}, sge(m.mr, 0, messageSize)
	if m.qp.Type() == verbs.RC {
		return m.qp.Connect(other.End, verbs.ConnectConfig{})
	}
	m.ah, err = pd.CreateAH(verbs.AHConfig{Port: gid.Port, GIDIndex: gid.Index, RemoteGID: other.End.GID})
	if err == nil {
		m.wr[0].AH, m.wr[0].RemoteQPN, m.wr[0].RemoteQKey = m.ah.Ref(), other.End.QPN, qkey
	}
	return err
}

func (m *messenger) close() error {
	if m.ah == nil {
		return nil
	}
	return m.ah.Close()
}

func (m *messenger) send() error {
	m.wr[0].Flags = 0
	if m.sent++; m.sent%benchSignal == 0 {
		m.wr[0].Flags = verbs.SendSignaled
	}
	_, err := m.qp.PostSend(m.wr[:], m.from[:])
	return err
}

// receive waits for a message.
func (m *messenger) receive(ctx context.Context) error {
	spin := verbs.MaxSpin
	if m.sleeps {
		spin = 0
	}
	for spins := 1; m.here == 0; spins++ {
		m.breath.take(32)
		n, err := m.cq.PollSpin(m.wcs[:], spin)
		if err == nil && n == 0 && m.sleeps {
			n, err = m.sleep(ctx)
		}
		if err != nil {
			return err
		}
		for i := range m.wcs[:n] {
			if m.wcs[i].Status != verbs.WCSuccess {
				return m.wcs[i].Err()
			}
			if m.wcs[i].ID == recvID {
				m.here++
				m.used++
			}
		}
		if spins%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	m.here--
	return nil
}

// sleep waits for an event unless there is a completion after all.
func (m *messenger) sleep(ctx context.Context) (int, error) {
	if err := m.cq.Arm(); err != nil {
		return 0, err
	}
	if n, err := m.cq.Poll(m.wcs[:]); n > 0 || err != nil {
		return n, err
	}
	return 0, m.cq.Wait(ctx)
}

// answer takes messages until ctx ends, and sends one back for each if it is to.
func (m *messenger) answer(ctx context.Context, back bool) error {
	for {
		err := m.receive(ctx)
		if err == nil && back {
			err = m.send()
		} else {
			m.here = 0 // all that came
		}
		if err == nil {
			err = m.restock()
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}
