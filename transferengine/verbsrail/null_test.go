//go:build linux && cgo && !noverbs

package verbsrail_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
	"github.com/weftrdma/weft/verbs"
)

// nullRail is a rail on the null provider with a peer that does not exist: what is posted completes, and goes nowhere.
type nullRail struct {
	config verbsrail.Config
	at     time.Time
	posted *time.Time
}

func (n nullRail) Open(i rail.Incarnation) (rail.Rail, error) {
	r, err := n.config.Open(i)
	if err == nil {
		_, err = r.(*verbsrail.Rail).Adopt(n.at)
	}
	return timedRail{r, n.posted}, err
}

// timedRail notes when a post has returned.
type timedRail struct {
	rail.Rail
	posted *time.Time
}

func (r timedRail) Post(peer rail.PeerID, ops []rail.Op) (int, error) {
	n, err := r.Rail.Post(peer, ops)
	if r.posted != nil {
		*r.posted = time.Now()
	}
	return n, err
}

// onNull is an engine on the null provider, driven by hand, with memory that is as good as the peer's.
type onNull struct {
	null   *cgotest.Null
	ctx    *verbs.Context
	engine *transferengine.Engine
	now    time.Time
	peer   *transferengine.Peer
	source *transferengine.Region
	dest   transferengine.Descriptor
	posted time.Time // when the last post returned
}

func newOnNull(t testing.TB, memory []byte) *onNull {
	t.Helper()
	null, err := cgotest.OpenNull()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, null.Close()) })
	null.SetPort(1, cgotest.Port{State: 4, MTU: 3, MaxMessage: 8 << 20, LinkLayer: 2})
	n := &onNull{null: null, now: time.Unix(1e9, 0)}
	n.ctx, err = verbs.ImportContext(null.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.ctx.Close()) })
	n.engine, err = transferengine.Open(transferengine.Config{Progress: transferengine.Manual, CloseTimeout: rdmatest.Deadline(20 * time.Second),
		Rails: []rail.Opener{nullRail{at: n.now, posted: &n.posted, config: verbsrail.Config{Context: n.ctx, DrainTimeout: time.Millisecond,
			Heartbeat: time.Hour, PeerTimeout: 3 * time.Hour}}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.engine.Close()) })
	n.engine.Turn(n.now)
	require.Len(t, n.engine.Peers(), 1)
	n.peer = n.engine.Peers()[0]
	n.source, err = n.engine.Register(memory, transferengine.LocalOnly)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.source.Close()) })

	// Of the peer that does not exist, as it would describe its memory.
	format := tlv.Format{Magic: [4]byte{'W', 't', 'D', 'S'}, Version: 1, MinVersion: 1}
	owner := n.peer.Incarnation()
	message := tlv.AppendField(format.Begin(nil), tlv.Required|1, owner[:])
	message = tlv.AppendField(message, tlv.Required|2, binary.BigEndian.AppendUint64(
		binary.BigEndian.AppendUint64(nil, 1<<40), uint64(len(memory))))
	message = tlv.AppendField(message, tlv.Required|3, []byte{byte(transferengine.RemoteWrite)})
	message = tlv.AppendField(message, tlv.Required|4, binary.BigEndian.AppendUint64(nil, 1))
	message = tlv.AppendField(message, tlv.Required|5, binary.BigEndian.AppendUint64(nil, 77))
	require.NoError(t, n.dest.UnmarshalBinary(tlv.Finish(message)))
	return n
}

// settle takes turns until nothing is left to do.
func (n *onNull) settle() {
	for did := 1; did > 0; {
		did, _ = n.engine.Turn(n.now)
	}
}

func (n *onNull) write(length uint64) transferengine.Write {
	return transferengine.Write{Peer: n.peer, Source: n.source, Dest: &n.dest, Length: length}
}

// TestNullWritesBeyond4GiB counts work requests: as many as it takes, the immediate on the last only.
func TestNullWritesBeyond4GiB(t *testing.T) {
	const size = 5<<30 + 4097
	// Nobody touches it, and what cannot be written needs no memory.
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	n := newOnNull(t, memory)
	before := n.null.Calls("post_send")
	var tr transferengine.Transfer
	w := n.write(size)
	w.Imm, w.HasImm = 7, true
	require.NoError(t, n.engine.Write(&tr, w))
	n.settle()
	require.True(t, tr.Done())
	require.NoError(t, tr.Err())
	require.Equal(t, 641, n.null.Calls("post_send")-before, "of 8 MiB, which is the port's largest message")
	stats := n.engine.Stats()
	require.EqualValues(t, 641, stats.Operations)
	require.EqualValues(t, size, stats.Bytes)
	require.EqualValues(t, 1, stats.ImmediatesSent)
}

// binding is a connected queue pair on the same null device.
type binding struct {
	qp   *verbs.QP
	cq   *verbs.CQ
	wrs  []verbs.SendWR
	sges []verbs.SGE
	wcs  []verbs.WC
}

func newBinding(b *testing.B, n *onNull, batch int) *binding {
	pd, err := n.ctx.AllocPD()
	require.NoError(b, err)
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 1024})
	require.NoError(b, err)
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 256, MaxRecvWR: 1})
	require.NoError(b, err)
	table, err := n.ctx.GIDTable()
	require.NoError(b, err)
	gid, err := verbs.SelectGID(table, 1)
	require.NoError(b, err)
	end, err := qp.Init(gid, verbs.AccessLocalWrite)
	require.NoError(b, err)
	require.NoError(b, qp.Connect(end, verbs.ConnectConfig{}))
	b.Cleanup(func() {
		for _, c := range []interface{ Close() error }{qp, cq, pd} {
			require.NoError(b, c.Close())
		}
	})
	x := &binding{qp: qp, cq: cq, wcs: make([]verbs.WC, 256)}
	for range batch {
		x.wrs = append(x.wrs, verbs.SendWR{Opcode: verbs.OpWrite, NumSGE: 1, RemoteAddr: 1 << 40, RKey: 77})
		x.sges = append(x.sges, verbs.SGE{Addr: mem.Addr(n.source.Bytes()), Length: 8, LKey: 1})
	}
	x.wrs[batch-1].Flags = verbs.SendSignaled
	return x
}

// BenchmarkNullAdded is what the engine adds to the binding per write of 8 bytes, from the request until the binding has
// posted it, for batches of several sizes; the completions are taken in between. It reports medians of interleaved pairs.
func BenchmarkNullAdded(b *testing.B) {
	for _, batch := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			n := newOnNull(b, make([]byte, 4096))
			direct := newBinding(b, n, batch)
			transfers := make([]transferengine.Transfer, batch)
			w := n.write(8)
			const rounds = 64 // in one reading of the clock
			engine := func() (spent time.Duration) {
				for range rounds {
					begin := time.Now()
					for i := range transfers {
						if err := n.engine.Write(&transfers[i], w); err != nil {
							b.Fatal(err)
						}
					}
					n.engine.Turn(n.now)
					spent += n.posted.Sub(begin)
					n.settle()
				}
				return spent
			}
			bare := func() (spent time.Duration) {
				for range rounds {
					begin := time.Now()
					if _, err := direct.qp.PostSend(direct.wrs, direct.sges); err != nil {
						b.Fatal(err)
					}
					n.posted = time.Now()
					spent += n.posted.Sub(begin)
					if _, err := direct.cq.Poll(direct.wcs); err != nil {
						b.Fatal(err)
					}
				}
				return spent
			}
			engine()
			bare()
			var with, without, added []float64
			for b.Loop() {
				x, y := engine(), bare()
				per := float64(rounds * batch)
				with = append(with, float64(x)/per)
				without = append(without, float64(y)/per)
				added = append(added, float64(x-y)/per)
			}
			for unit, samples := range map[string][]float64{"engine-ns/write": with, "binding-ns/write": without, "added-ns/write": added} {
				slices.Sort(samples)
				b.ReportMetric(samples[len(samples)/2], unit)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
