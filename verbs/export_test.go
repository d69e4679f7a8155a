package verbs

// CrashInPoll makes the shim's poll read through a null pointer.
func CrashInPoll() { cPollCQ(nil, make([]WC, 1), 0) }

// Own makes Close of an imported context close the device too.
func (c *Context) Own() { c.borrowed = false }

// What the pure functions of bring-up compute.
var (
	TimeoutCode  = timeoutCode
	RNRTimerCode = rnrTimerCode
)

// Crossings is how often Go has called into the shim to post to the queue pair.
func (qp *QP) Crossings() uint64 { return cQPCrossings(qp.ptr) }

// Crossings is how often Go has called into the shim to post the template.
func (t *Template) Crossings() uint64 { return cTemplateCrossings(t.ptr) }

// Registered is how many objects events can be about.
func (c *Context) Registered() int {
	c.objects.mu.Lock()
	defer c.objects.mu.Unlock()
	return len(c.objects.m)
}

// ReleaseOf finds the release of rdma-core in the name of a library's file, and LibraryRelease that of the one in use.
var (
	ReleaseOf      = releaseOf
	LibraryRelease = libraryRelease
)

// CheckStep checks a change of state.
var CheckStep = checkStep
