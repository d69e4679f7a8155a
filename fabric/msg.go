package fabric

// Send posts messages, in one crossing. ops[i] takes the next ops[i].NumSeg entries of segs; none may be left over. Neither
// slice is used after the call.
//
// It returns how many operations the provider accepted, from the first on. The error, where that is fewer than all, wraps
// [ErrQueueFull] if it takes no more for now; all queues of the endpoint have been progressed then. An error about an
// operation itself, such as memory that is not registered, comes before anything is posted.
//
// Flags says when it completes; with FlagInject alone the bytes are taken at once and no completion comes. Data with
// FlagRemoteCQData arrives with the message's completion.
//
// Implements:
//
//	ssize_t fi_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr, void *context)
//	ssize_t fi_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr, void *context)
//	ssize_t fi_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
//	ssize_t fi_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest_addr,
//		void *context)
//	ssize_t fi_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
//	ssize_t fi_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr)
func (ep *Endpoint) Send(ops []Op, segs []Seg) (accepted int, err error) {
	return ep.post(OpSend, ops, segs)
}

// Recv posts buffers for messages, as Send does messages, from Peer or, with AddrUnspec, from anyone. With FlagMultiRecv a
// buffer takes message after message, each with a completion that says where (Addr), until less than the endpoint's
// MinMultiRecv is left: the last has FlagMultiRecv.
//
// Implements:
//
//	ssize_t fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, void *context)
//	ssize_t fi_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr, void *context)
//	ssize_t fi_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
func (ep *Endpoint) Recv(ops []Op, segs []Seg) (accepted int, err error) {
	return ep.post(OpRecv, ops, segs)
}
