package fabric

// Write writes to peers' memory, at RemoteAddr with RemoteKey, as [Endpoint.Send] sends messages. With FlagRemoteCQData the
// target gets a completion with Data once the bytes are in place; it says whose they are where the provider has CapSource.
//
// A write without segments carries Data alone; RemoteAddr and RemoteKey name memory all the same. It is posted without
// FlagDeliveryComplete: shm of libfabric 1.17 would never complete it, and take nothing more.
//
// Implements:
//
//	ssize_t fi_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr, uint64_t addr,
//		uint64_t key, void *context)
//	ssize_t fi_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
//		uint64_t addr, uint64_t key, void *context)
//	ssize_t fi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
//	ssize_t fi_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest_addr,
//		uint64_t addr, uint64_t key, void *context)
//	ssize_t fi_inject_write(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t addr, uint64_t key)
//	ssize_t fi_inject_writedata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
//		uint64_t addr, uint64_t key)
func (ep *Endpoint) Write(ops []Op, segs []Seg) (accepted int, err error) {
	return ep.post(OpWrite, ops, segs)
}

// Read reads peers' memory, at RemoteAddr with RemoteKey, into the segments.
//
// Implements:
//
//	ssize_t fi_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t addr, uint64_t key,
//		void *context)
//	ssize_t fi_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr, uint64_t addr,
//		uint64_t key, void *context)
//	ssize_t fi_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
func (ep *Endpoint) Read(ops []Op, segs []Seg) (accepted int, err error) {
	return ep.post(OpRead, ops, segs)
}
