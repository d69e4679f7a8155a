package fabricrail

// AddressOver is the rail's address if it had another provider.
func (r *Rail) AddressOver(provider string) []byte {
	a := r.self
	a.provider = provider
	return a.append(nil)
}

// SleepWithoutDescriptor makes the rail sleep as one does whose provider has no descriptor.
func (r *Rail) SleepWithoutDescriptor() { r.sleep.cq = nil }

// Exhaust takes all buffers for messages, and gives them back.
func (r *Rail) Exhaust() (release func()) {
	free := r.mailbox.free
	r.mailbox.free = nil
	return func() { r.mailbox.free = append(r.mailbox.free, free...) }
}
