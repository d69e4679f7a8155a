package verbs

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/solo"
)

// Template is a list of send work requests that are prepared once, in C memory: opcode, flags, keys, immediate, identifier
// and peer. A post gives the lengths and addresses alone. The requests may be for several queue pairs, one for each peer
// say, which are posted to in one crossing.
//
// It is the form for what is sent over and over: a post copies nothing but what changes.
type Template struct {
	life  life.Object
	ptr   unsafe.Pointer // struct weft_template *
	parts []TemplatePart
	holds []life.Object // keep the queue pairs open
	n     int
	user  solo.Guard
}

// TemplatePart is the requests of a template that are for one queue pair, in the order in which they are posted; no two parts
// are for the same. A request has one entry, of the memory that LKey is for; NumSGE is not looked at. Sends, writes and reads
// can be prepared.
type TemplatePart struct {
	QP   *QP
	WRs  []SendWR
	LKey uint32
}

// Patch is one request of a post: which one of the template, and where its bytes are. A Length of 0 posts it without an
// entry. RemoteAddr is not for sends.
type Patch struct {
	Addr       uint64
	RemoteAddr uint64
	Length     uint32
	Index      uint32 // of the prepared request, counted through all parts
}

// NewTemplate prepares requests. The queue pairs cannot be closed before it.
func NewTemplate(parts ...TemplatePart) (*Template, error) {
	t := &Template{parts: parts, holds: make([]life.Object, len(parts))}
	partOf := make(map[*QP]int, len(parts))
	for i, part := range parts {
		if part.QP == nil {
			return nil, invalid("template: part %d has no queue pair", i)
		}
		if k, ok := partOf[part.QP]; ok { // its run of unsignalled requests would be counted twice from the same number
			return nil, invalid("template: parts %d and %d are for the same QP %d; make them one", k, i, part.QP.num)
		}
		partOf[part.QP] = i
		t.n += len(part.WRs)
	}
	if t.n == 0 {
		return nil, invalid("template: it has no work requests")
	}
	var err error
	if t.ptr, err = cCreateTemplate(t.n); err != nil {
		return nil, err
	}
	if err = t.prepare(); err == nil {
		err = t.life.Init("template", nil, t.free)
	}
	if err != nil {
		return nil, closeAfter(err, t.free)
	}
	return t, nil
}

func (t *Template) prepare() error {
	p := post{n: uint32(t.n), numSGE: uint32(t.n)}
	for i, part := range t.parts {
		if err := t.holds[i].Init("template", &part.QP.life, func() error { return nil }); err != nil {
			return err
		}
		for k := range part.WRs {
			if result := cAddPrepared(t.ptr, part.QP.ptr, &part.WRs[k], part.LKey); result != 0 {
				p.result = int32(result)
				return part.QP.postError("prepare template", &p)
			}
			p.accepted++
		}
	}
	return nil
}

func (t *Template) free() error {
	cDestroyTemplate(t.ptr)
	runtime.AddCleanup(t, cFreeTemplate, t.ptr) // as of QP.freeLater
	for i := range t.holds {
		_ = t.holds[i].Close() // has nothing to free and no children
	}
	return nil
}

// Close frees the template. Requests that were posted may still be under way.
func (t *Template) Close() error { return t.life.Close() }

// Len is how many requests are prepared.
func (t *Template) Len() int { return t.n }

// Post posts prepared requests with these lengths and addresses, in one crossing, and one chain for each queue pair. Each
// can be posted once, in their order: Index increases from patch to patch.
//
// It returns how many work requests drivers accepted, from the first patch on, as [QP.PostSend] does, with its errors. Where
// several queue pairs are posted to, what was accepted before the error may be of several.
//
// Unlike other calls a template is for one goroutine at a time: a post during another gives EBUSY and posts nothing, and the race
// detector reports posts that nothing orders.
func (t *Template) Post(patches []Patch) (accepted int, err error) {
	p := post{n: uint32(len(patches))}
	t.user.Use()
	mem.Reads(patches)
	cPostTemplate(t.ptr, patches, &p)
	runtime.KeepAlive(t)
	if p.result != 0 {
		return p.taken(), t.postError(patches, &p)
	}
	return int(p.accepted), nil
}

// postError is why a post was not taken as a whole, as of a queue pair.
func (t *Template) postError(patches []Patch, p *post) error {
	if p.result == -badClosed {
		if err := t.life.Enter(); err != nil {
			return err
		}
		t.life.Exit()
		return fmt.Errorf("verbs: template: another goroutine posts it: %w", syscall.EBUSY)
	}
	if p.result == -badPatch {
		return invalid("template: patch %d of %d has index %d: %d are prepared, and indexes must increase; nothing was posted",
			p.accepted, p.n, patches[p.accepted].Index, t.n)
	}
	qp, index := t.parts[0].QP, int(patches[p.accepted].Index)
	for _, part := range t.parts {
		qp = part.QP
		if index < len(part.WRs) {
			break
		}
		index -= len(part.WRs)
	}
	return qp.postError("ibv_post_send", p)
}
