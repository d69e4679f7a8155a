//go:build race && linux && cgo && !noverbs

package verbs_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

func init() { children["race"] = playRace }

// races are uses that two goroutines must not make at the same time. C does what races there, where the detector sees nothing
// by itself.
var races = map[string]func(*racing) error{
	"a template's post":   func(r *racing) error { _, err := r.template.Post([]verbs.Patch{{}}); return err },
	"a queue's wait":      func(r *racing) error { return r.cq.Wait(expired()) },
	"a channel's wait":    func(r *racing) error { _, err := r.channel.Wait(expired(), nil); return err },
	"a list to poll into": func(r *racing) error { _, err := r.cq.Poll(r.wcs); return err },
	"a list to post": func(r *racing) error {
		r.wrs[0].ID++
		_, err := r.qp.PostSend(r.wrs, nil)
		return err
	},
	"no race": func(r *racing) error { _, err := r.qp.PostSend(sends(1), nil); return err },
}

// racing is what is used.
type racing struct {
	null     *cgotest.Null
	ctx      *verbs.Context
	pd       *verbs.PD
	cq       *verbs.CQ
	channel  *verbs.CompChannel
	qp       *verbs.QP
	template *verbs.Template
	wcs      []verbs.WC
	wrs      []verbs.SendWR
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func openRacing() *racing {
	r := &racing{null: must(cgotest.OpenNull()), wcs: make([]verbs.WC, 4), wrs: sends(1)}
	r.ctx = must(verbs.ImportContext(r.null.Context()))
	r.pd = must(r.ctx.AllocPD())
	r.cq = must(r.ctx.CreateCQ(verbs.CQConfig{Depth: 64, Events: true}))
	r.channel = must(r.ctx.CreateCompChannel())
	r.qp = must(r.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: r.cq, RecvCQ: r.cq, MaxSendWR: 16}))
	local := must(r.qp.Init(must(verbs.SelectGID(must(r.ctx.GIDTable()), 1)), remoteAccess))
	if err := r.qp.Connect(local, verbs.ConnectConfig{}); err != nil {
		panic(err)
	}
	r.template = must(verbs.NewTemplate(verbs.TemplatePart{QP: r.qp, WRs: sends(1)}))
	return r
}

// playRace has two goroutines make a use that nothing orders.
func playRace(args []string) int {
	r := openRacing()
	var done sync.WaitGroup
	for range 2 {
		done.Go(func() { _ = races[args[0]](r) })
	}
	done.Wait()
	for _, c := range []closer{r.template, r.qp, r.channel, r.cq, r.pd, r.ctx, r.null} {
		if err := c.Close(); err != nil {
			panic(err)
		}
	}
	return 0
}

// TestNullRacesAreNoticed in builds with the race detector.
func TestNullRacesAreNoticed(t *testing.T) {
	for name := range races {
		t.Run(name, func(t *testing.T) {
			child := rdmatest.StartChild(t, "race", name)
			err := child.Wait(rdmatest.Deadline(60 * time.Second))
			if name == "no race" {
				require.NoError(t, err)
				require.NotContains(t, child.Stderr(), "DATA RACE")
				return
			}
			require.ErrorContains(t, err, "exit status 66")
			require.Contains(t, child.Stderr(), "WARNING: DATA RACE")
		})
	}
}
