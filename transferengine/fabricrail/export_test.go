package fabricrail

// Stick has the rail's next look at its queue never return, as one that meets a lock which a killed process left.
func (r *Rail) Stick() {
	r.polling.call = func() { select {} }
}
