package fabric

// TaggedSend posts messages with a Tag, as [Endpoint.Send] does those without.
//
// Implements:
//
//	ssize_t fi_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr, uint64_t tag, void *context)
//	ssize_t fi_tsendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
//		uint64_t tag, void *context)
//	ssize_t fi_tsendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
//	ssize_t fi_tsenddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest_addr,
//		uint64_t tag, void *context)
//	ssize_t fi_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t tag)
//	ssize_t fi_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr, uint64_t tag)
func (ep *Endpoint) TaggedSend(ops []Op, segs []Seg) (accepted int, err error) {
	return ep.post(OpTaggedSend, ops, segs)
}

// TaggedRecv posts buffers for messages whose tag is Tag but for the bits of Ignore, as [Endpoint.Recv] does for those
// without. With FlagPeek it takes no buffer and only looks whether such a message is there: the completion has its length
// and tag, or is an error that wraps ENOMSG.
//
// Implements:
//
//	ssize_t fi_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t tag, uint64_t ignore,
//		void *context)
//	ssize_t fi_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr, uint64_t tag,
//		uint64_t ignore, void *context)
//	ssize_t fi_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
func (ep *Endpoint) TaggedRecv(ops []Op, segs []Seg) (accepted int, err error) {
	return ep.post(OpTaggedRecv, ops, segs)
}
