package verbs_test

import (
	"fmt"
	"log"

	"github.com/weftrdma/weft/verbs"
)

// player is one end of a ping-pong: a queue pair and a buffer of two halves, one to send from and one to receive into.
type player struct {
	cq    *verbs.CQ
	qp    *verbs.QP
	buf   []byte
	mr    *verbs.MR
	local verbs.Endpoint
}

func newPlayer(pd *verbs.PD, gid verbs.GIDEntry) (p *player, err error) {
	p = &player{buf: make([]byte, 128)}
	if p.cq, err = pd.Context().CreateCQ(verbs.CQConfig{Depth: 8}); err != nil {
		return p, err
	}
	p.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: p.cq, RecvCQ: p.cq, MaxSendWR: 4, MaxRecvWR: 4})
	if err != nil {
		return p, err
	}
	if p.mr, err = pd.RegMR(p.buf, verbs.AccessLocalWrite); err != nil {
		return p, err
	}
	p.local, err = p.qp.Init(gid, 0)
	return p, err
}

// close is in the order in which the objects stand on one another.
func (p *player) close() {
	if p.qp != nil {
		p.qp.Close()
	}
	if p.mr != nil {
		p.mr.Close()
	}
	if p.cq != nil {
		p.cq.Close()
	}
}

func (p *player) receive() error {
	_, err := p.qp.PostRecv([]verbs.RecvWR{{ID: 1, NumSGE: 1}}, []verbs.SGE{{Addr: p.mr.Addr() + 64, Length: 64, LKey: p.mr.LKey()}})
	return err
}

func (p *player) send(text string) error {
	n := copy(p.buf[:64], text)
	_, err := p.qp.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, NumSGE: 1}},
		[]verbs.SGE{{Addr: p.mr.Addr(), Length: uint32(n), LKey: p.mr.LKey()}})
	return err
}

// await polls until the work request has completed, and returns what it received if it is a receive.
func (p *player) await(id uint64) (string, error) {
	var wcs [4]verbs.WC
	for {
		n, err := p.cq.PollSpin(wcs[:], verbs.MaxSpin)
		if err != nil {
			return "", err
		}
		for i := range wcs[:n] {
			if err := wcs[i].Err(); err != nil {
				return "", err
			}
			if wcs[i].ID == id {
				return string(p.buf[64:][:wcs[i].ByteLen]), nil
			}
		}
	}
}

// pingPong has two ends in one process send to one another; two processes tell each other their endpoints first.
func pingPong(ctx *verbs.Context) (answer string, err error) {
	table, err := ctx.GIDTable()
	if err != nil {
		return "", err
	}
	gid, err := verbs.SelectGID(table, 1)
	if err != nil {
		return "", err
	}
	pd, err := ctx.AllocPD()
	if err != nil {
		return "", err
	}
	defer pd.Close()
	var ends [2]*player
	for i := range ends {
		ends[i], err = newPlayer(pd, gid)
		defer ends[i].close()
		if err != nil {
			return "", err
		}
	}
	for i, p := range ends {
		if err := p.receive(); err != nil { // before the other end can send
			return "", err
		}
		if err := p.qp.Connect(ends[1-i].local, verbs.ConnectConfig{}); err != nil {
			return "", err
		}
	}
	if err := ends[0].send("ping"); err != nil {
		return "", err
	}
	if answer, err = ends[1].await(1); err != nil {
		return "", err
	}
	if err := ends[1].send(answer + ", pong"); err != nil {
		return "", err
	}
	return ends[0].await(1)
}

// A ping-pong over a reliable connection.
func Example_pingPong() {
	ctx, err := verbs.Open("") // the only device
	if err != nil {
		log.Fatal(err)
	}
	defer ctx.Close()
	answer, err := pingPong(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}
