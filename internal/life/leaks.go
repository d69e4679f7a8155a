package life

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// leaks is the one package variable of the module that holds state. A leak is a property of the process: the test main
// that asks for open objects has no reference to them, nor to whatever package created them, so there is nothing that
// it could pass down. While tracking is off an open or a close costs one atomic load here.
var leaks registry

// registry holds the creation stacks of open objects.
type registry struct {
	on    atomic.Bool
	mu    sync.Mutex
	birth map[*Object][]uintptr
}

// Track records, from now on, the stack that creates each object. It is for test mains: it keeps every open object
// reachable, and an open costs a stack walk.
func Track() {
	leaks.mu.Lock()
	defer leaks.mu.Unlock()
	if leaks.birth == nil {
		leaks.birth = make(map[*Object][]uintptr)
	}
	leaks.on.Store(true)
}

// Live returns one entry for each object that was opened since Track and is still open: its kind, and below it the
// stack that created it, a function and a file and line at a time. Entries are sorted.
func Live() []string {
	leaks.mu.Lock()
	defer leaks.mu.Unlock()
	var entries []string
	for o, stack := range leaks.birth {
		entries = append(entries, o.kind+" created by\n"+format(stack))
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
	r.birth[o] = stack
}

func (r *registry) died(o *Object) {
	if !r.on.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.birth, o)
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
