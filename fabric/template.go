package fabric

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/solo"
)

// Template is a list of operations that are prepared once, in C memory: peers, keys, flags, data, identifiers. A post gives
// the lengths and addresses alone. With one for each peer of a group, a scatter to all of them is one crossing.
type Template struct {
	life  life.Object
	ptr   unsafe.Pointer // struct weft_fi_template *
	parts []TemplatePart
	posts solo.Guard
	n     int
}

// TemplatePart is operations of one kind for one endpoint, in the order in which they are posted. Each has one segment, of
// the memory that LKey is for; NumSeg and RemoteAddr are not looked at.
type TemplatePart struct {
	Endpoint *Endpoint
	Kind     OpKind // not a receive
	Ops      []Op
	LKey     uint32
}

// Patch is one operation of a post: which one of the template, and where its bytes are. A Length of 0 posts it without a
// segment. RemoteAddr is for writes and reads.
type Patch struct {
	Addr       uint64
	RemoteAddr uint64
	Length     uint64
	Index      uint32 // of the prepared operation, counted through all parts
	_          uint32
}

// NewTemplate prepares operations. The endpoints cannot be closed before it.
func NewTemplate(parts ...TemplatePart) (*Template, error) {
	t := &Template{parts: parts}
	for i, part := range parts {
		switch part.Kind {
		case OpSend, OpTaggedSend, OpWrite, OpRead:
		default:
			return nil, invalid("template: part %d is of kind %d, which cannot be prepared", i, part.Kind)
		}
		if part.Endpoint == nil {
			return nil, invalid("template: part %d has no endpoint", i)
		}
		t.n += len(part.Ops)
	}
	if t.n == 0 {
		return nil, invalid("template: it has no operations")
	}
	endpoints := make([]*life.Object, len(parts))
	for i, part := range parts {
		endpoints[i] = &part.Endpoint.life
	}
	exit, err := enter(endpoints...)
	if err != nil {
		return nil, err
	}
	defer exit()
	if t.ptr, err = cCreateTemplate(t.n); err != nil {
		return nil, err
	}
	if err = t.prepare(); err == nil {
		err = t.life.Init("template", nil, t.free, endpoints...)
	}
	if err != nil {
		return nil, closeAfter(err, t.free)
	}
	return t, nil
}

func (t *Template) prepare() error {
	at := 0
	for _, part := range t.parts {
		for k := range part.Ops {
			if result := cAddPrepared(t.ptr, part.Endpoint.ptr, part.Kind, &part.Ops[k], part.LKey); result != 0 {
				return part.Endpoint.postError("prepare template", result, at, t.n, t.n)
			}
			at++
		}
	}
	return nil
}

func (t *Template) free() error {
	cFreeTemplate(t.ptr)
	return nil
}

// Close frees the template. Operations that were posted may still be under way.
func (t *Template) Close() error { return t.life.Close() }

// Len is how many operations are prepared.
func (t *Template) Len() int { return t.n }

// Post posts prepared operations with these lengths and addresses, in one crossing. Each can be posted once, in their order:
// Index increases from patch to patch.
//
// It returns how many operations the provider accepted, from the first patch on, as [Endpoint.Send] does, with its errors.
//
// Unlike other calls a template is for one goroutine at a time: a post during another gives EBUSY and posts nothing.
func (t *Template) Post(patches []Patch) (accepted int, err error) {
	t.posts.Use()
	if solo.Enabled {
		for _, part := range t.parts {
			part.Endpoint.use()
		}
	}
	if err := t.life.Enter(); err != nil {
		return 0, err
	}
	accepted, result := cPostTemplate(t.ptr, patches)
	t.life.Exit()
	if result != 0 {
		return t.refused(patches, result, accepted)
	}
	return accepted, nil
}

func (t *Template) refused(patches []Patch, result, accepted int) (int, error) {
	switch -result {
	case badBusy:
		return 0, fmt.Errorf("fabric: template: another goroutine posts it: %w", syscall.EBUSY)
	case badPatch:
		return 0, invalid("template: patch %d of %d has index %d: %d are prepared, and indexes must increase; nothing was posted",
			accepted, len(patches), patches[accepted].Index, t.n)
	}
	return t.endpoint(patches[accepted].Index).refused("template", result, accepted, len(patches), len(patches))
}

// endpoint is whose the prepared operation of that index is.
func (t *Template) endpoint(index uint32) *Endpoint {
	at := int(index)
	for _, part := range t.parts {
		if at < len(part.Ops) {
			return part.Endpoint
		}
		at -= len(part.Ops)
	}
	return t.parts[0].Endpoint // the shim has refused an index beyond
}
