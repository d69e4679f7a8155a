package fabric

// Crossings is how often Go has called into the shim to post to the endpoint.
func (ep *Endpoint) Crossings() uint64 { return cCrossings(ep.ptr) }

// Crossings is how often Go has called into the shim to post the template.
func (t *Template) Crossings() uint64 { return cTemplateCrossings(t.ptr) }

// AddressOf is where a slice lies.
var AddressOf = addressOf

// Headers is the version of the headers that this was built with.
func Headers() Version { return version(cHeaders()) }

// ExplainMemlock is what an error of a provider is made for a limit on locked memory.
var ExplainMemlock = explainMemlock

// CheckAddress tells whether an address is one of that format.
func CheckAddress(format AddrFormat, address []byte) error {
	return (&Info{AddrFormat: format}).checkAddress("check", address)
}

// What a provider is chosen by.
var (
	OrDefaultProvider = orDefaultProvider
	Preferred         = preferred
)

// Known is how many objects the queue keeps for their events.
func (eq *EQ) Known() int {
	eq.mu.Lock()
	defer eq.mu.Unlock()
	return len(eq.known)
}

// Sleeping tells whether somebody sleeps in the set.
func (s *WaitSet) Sleeping() bool { return s.waiter.listening.Load() }
