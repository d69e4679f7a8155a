//go:build linux && cgo && !nofabric

package fabric_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/internal/solo"
)

func init() { children["together"] = playTogether }

// playTogether has two goroutines, with no order between them, use what is for one at a time.
func playTogether(args []string) int {
	if err := together(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func together(what string) error {
	p := process{hints: func(h *fabric.Hints) {
		h.Threading = map[string]fabric.Threading{"domain": fabric.ThreadDomain, "completion": fabric.ThreadCompletion,
			"apart": fabric.ThreadCompletion, "memory": fabric.ThreadDomain, "counter": fabric.ThreadDomain,
			"vector": fabric.ThreadDomain, "cancel": fabric.ThreadDomain}[what]
	}}
	if err := p.open("shm"); err != nil {
		return err
	}
	name, err := p.ep.Name()
	if err != nil {
		return err
	}
	if _, err := p.av.Insert(name); err != nil {
		return err
	}
	template, err := fabric.NewTemplate(fabric.TemplatePart{Endpoint: p.ep, Kind: fabric.OpSend, Ops: []fabric.Op{{}}})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, template)
	second, err := p.domain.OpenCQ(fabric.CQConfig{})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, second)
	counter, err := p.domain.OpenCounter(fabric.CounterConfig{})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, counter)
	post := func() { _, _ = p.ep.Send(nil, nil) }
	uses := map[string][2]func(){
		"safe":       {post, func() { _, _ = p.cq.Poll(nil) }},
		"domain":     {post, func() { _, _ = second.Poll(nil) }},
		"completion": {post, func() { _, _ = p.cq.Poll(nil) }},
		"apart":      {post, func() { _, _ = second.Poll(nil) }}, // ThreadCompletion lets goroutines use queues of their own
		"memory":     {post, func() { _, _ = p.domain.RegMR(nil, fabric.MRConfig{}) }},
		"counter":    {post, func() { _, _ = counter.Read() }},
		"vector":     {post, func() { _, _ = p.av.Lookup(0) }},
		"cancel":     {post, func() { _ = p.ep.Cancel(1) }},
		"template":   {func() { _, _ = template.Post(nil) }, func() { _, _ = template.Post(nil) }},
	}[what]
	done := make(chan struct{}, len(uses))
	for _, use := range uses {
		go func() {
			use()
			done <- struct{}{}
		}()
	}
	for range uses {
		<-done
	}
	return p.close()
}

// TestRaceDetectorNoticesWhatIsNotConcurrent, though it happens in C.
func TestRaceDetectorNoticesWhatIsNotConcurrent(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for what, noticed := range map[string]bool{"safe": false, "apart": false, "domain": true, "completion": true, "template": true,
		"memory": true, "counter": true, "vector": true, "cancel": true} {
		t.Run(what, func(t *testing.T) {
			c := rdmatest.StartChild(t, "together", what)
			err := c.Wait(patience)
			if noticed && solo.Enabled {
				require.ErrorContains(t, err, "exit status 66")
				require.Contains(t, c.Stderr(), "DATA RACE")
				require.Contains(t, c.Stderr(), "solo.(*Guard).Use")
				return
			}
			require.NoError(t, err)
		})
	}
}
