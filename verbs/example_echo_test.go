package verbs_test

import (
	"fmt"
	"log"

	"github.com/weftrdma/weft/verbs"
)

const (
	echoKey  = 0x77656674 // only datagrams with this Q_Key are taken
	echoSize = 1024       // of a datagram
)

// echoSocket is a UD queue pair with one receive buffer, which begins with room for the global route header, and one send
// buffer behind it.
type echoSocket struct {
	cq  *verbs.CQ
	qp  *verbs.QP
	ahs *verbs.AHCache
	buf []byte
	mr  *verbs.MR
	gid verbs.GIDEntry
}

func newEchoSocket(pd *verbs.PD, gid verbs.GIDEntry) (s *echoSocket, err error) {
	s = &echoSocket{buf: make([]byte, verbs.GRHSize+2*echoSize), gid: gid}
	if s.cq, err = pd.Context().CreateCQ(verbs.CQConfig{Depth: 8}); err != nil {
		return s, err
	}
	s.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: s.cq, RecvCQ: s.cq, MaxSendWR: 4, MaxRecvWR: 4})
	if err != nil {
		return s, err
	}
	if s.ahs, err = pd.NewAHCache(); err != nil {
		return s, err
	}
	if s.mr, err = pd.RegMR(s.buf, verbs.AccessLocalWrite); err != nil {
		return s, err
	}
	if err = s.qp.Activate(gid.Port, echoKey); err != nil {
		return s, err
	}
	return s, s.postReceive()
}

func (s *echoSocket) close() {
	if s.qp != nil {
		s.qp.Close()
	}
	if s.ahs != nil {
		s.ahs.Close()
	}
	if s.mr != nil {
		s.mr.Close()
	}
	if s.cq != nil {
		s.cq.Close()
	}
}

func (s *echoSocket) postReceive() error {
	_, err := s.qp.PostRecv([]verbs.RecvWR{{ID: 1, NumSGE: 1}},
		[]verbs.SGE{{Addr: s.mr.Addr(), Length: verbs.GRHSize + echoSize, LKey: s.mr.LKey()}})
	return err
}

func (s *echoSocket) sendTo(to verbs.GID, qpn uint32, payload []byte) error {
	ah, err := s.ahs.Get(verbs.AHConfig{Port: s.gid.Port, GIDIndex: s.gid.Index, RemoteGID: to})
	if err != nil {
		return err
	}
	at := verbs.GRHSize + echoSize
	n := copy(s.buf[at:], payload)
	_, err = s.qp.PostSend([]verbs.SendWR{{
		ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, NumSGE: 1, AH: ah.Ref(), RemoteQPN: qpn, RemoteQKey: echoKey,
	}}, []verbs.SGE{{Addr: s.mr.Addr() + uint64(at), Length: uint32(n), LKey: s.mr.LKey()}})
	return err
}

// receive waits for a datagram and tells where it came from: the queue pair by the completion, the address by the header.
func (s *echoSocket) receive() (payload []byte, from verbs.GID, qpn uint32, err error) {
	var wcs [4]verbs.WC
	for {
		n, err := s.cq.PollSpin(wcs[:], verbs.MaxSpin)
		if err != nil {
			return nil, from, 0, err
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			if err := wc.Err(); err != nil {
				return nil, from, 0, err
			}
			if from, ok := verbs.SourceGID(wc, s.buf); ok && wc.ID == 1 {
				return s.buf[verbs.GRHSize:wc.ByteLen], from, wc.SrcQPN, nil
			}
		}
	}
}

// echo sends a datagram to a server, which sends it back to where it came from.
func echo(ctx *verbs.Context, gid verbs.GIDEntry, text string) (string, error) {
	pd, err := ctx.AllocPD()
	if err != nil {
		return "", err
	}
	defer pd.Close()
	server, err := newEchoSocket(pd, gid)
	defer server.close()
	if err != nil {
		return "", err
	}
	client, err := newEchoSocket(pd, gid)
	defer client.close()
	if err != nil {
		return "", err
	}
	if err := client.sendTo(gid.GID, server.qp.Num(), []byte(text)); err != nil {
		return "", err
	}
	payload, from, qpn, err := server.receive()
	if err != nil {
		return "", err
	}
	if err := server.sendTo(from, qpn, payload); err != nil {
		return "", err
	}
	payload, _, _, err = client.receive()
	return string(payload), err
}

// An echo over unreliable datagrams.
func Example_echo() {
	ctx, err := verbs.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer ctx.Close()
	table, err := ctx.GIDTable()
	if err != nil {
		log.Fatal(err)
	}
	gid, err := verbs.SelectGID(table, 1)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := echo(ctx, gid, "hello")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}
