package fabricrail

// Stick has the rail's next look at its queue never return, as one that meets a lock which a killed process left.
func (r *Rail) Stick() {
	r.polling.call = func() { select {} }
}

// Exhaust takes all buffers for messages, and gives them back.
func (r *Rail) Exhaust() (release func()) {
	free := r.mailbox.free
	r.mailbox.free = nil
	return func() { r.mailbox.free = append(r.mailbox.free, free...) }
}
