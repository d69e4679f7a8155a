package life

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"weak"
)

// leaks holds state in a package variable, as pins does and nothing else in the module. A leak is a property of the
// process: the test main that asks for open objects has no reference to them, nor to whatever package created them, so
// there is nothing that it could pass down. While tracking is off an open or a close costs one atomic load here.
var leaks registry

// registry holds the creation stacks of open objects. Its references are weak: under test an object that nobody refers to
// is collected as it is elsewhere, and what comes of that is seen.
type registry struct {
	on    atomic.Bool
	mu    sync.Mutex
	birth map[weak.Pointer[Object]]birth
}

// birth is the kind of an object, and the stack that created it.
type birth struct {
	kind  string
	stack []uintptr
}

// Track records, from now on, the stack that creates each object. It is for test mains: an open costs a stack walk.
func Track() {
	leaks.mu.Lock()
	defer leaks.mu.Unlock()
	if leaks.birth == nil {
		leaks.birth = make(map[weak.Pointer[Object]]birth)
	}
	leaks.on.Store(true)
}

// Live returns one entry for each object that was opened since Track and never closed, collected or not: its kind, and below it the
// stack that created it, a function and a file and line at a time. Entries are sorted.
func Live() []string {
	leaks.mu.Lock()
	defer leaks.mu.Unlock()
	var entries []string
	for _, b := range leaks.birth {
		entries = append(entries, b.kind+" created by\n"+format(b.stack))
	}
	slices.Sort(entries)
	return entries
}

func (r *registry) born(o *Object) {
	if !r.on.Load() {
		return
	}
	stack := make([]uintptr, 32)
	stack = stack[:runtime.Callers(3, stack)] // without Callers, born and Init
	r.mu.Lock()
	defer r.mu.Unlock()
	r.birth[weak.Make(o)] = birth{o.kind, stack}
}

func (r *registry) died(o *Object) {
	if !r.on.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.birth, weak.Make(o))
}

// format renders a stack as the runtime's own traces do.
func format(stack []uintptr) string {
	var text strings.Builder
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		fmt.Fprintf(&text, "\t%s\n\t\t%s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return text.String()
		}
	}
}
