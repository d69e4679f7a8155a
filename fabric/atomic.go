package fabric

// Datatype is what an atomic works on (enum fi_datatype).
type Datatype uint32

// The datatypes; the last two are 16 bytes long.
const (
	Int8 Datatype = iota
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float
	Double
	FloatComplex
	DoubleComplex
	LongDouble
	LongDoubleComplex
	Int128
	Uint128
)

// String names it as libfabric does.
func (t Datatype) String() string { return cText(typeAtomicType, uint64(t)) }

// AtomicOperator is what an atomic does (enum fi_op).
type AtomicOperator uint32

// The operators; those from CompareSwap on are for CompareAtomic.
const (
	Min AtomicOperator = iota
	Max
	Sum
	Prod
	LogicalOr
	LogicalAnd
	BitOr
	BitAnd
	LogicalXor
	BitXor
	AtomicRead  // of FetchAtomic: the result is what is there
	AtomicWrite // what is there becomes the operand
	CompareSwap // the operand, where what is there equals the comparand
	CompareSwapNE
	CompareSwapLE
	CompareSwapLT
	CompareSwapGE
	CompareSwapGT
	MaskedSwap // the operand's bits, where the comparand has ones
)

// String names it as libfabric does.
func (o AtomicOperator) String() string { return cText(typeAtomicOp, uint64(o)) }

// AtomicOp is one atomic operation on values of a peer's memory. Its segments are lists of whole values of the datatype, all
// lists of the same number of values: first the operands; then, of CompareAtomic, what to compare with; then, of that and
// FetchAtomic, where the values go that were there before.
type AtomicOp struct {
	ID         uint64 // comes back in the completion
	Flags      Flags
	Peer       Addr
	Data       uint64
	RemoteAddr uint64
	RemoteKey  uint64
	Datatype   Datatype
	Operator   AtomicOperator
	NumSeg     uint32 // of each list
	_          uint32
}

// atomicKind is enum weft_fi_atomic_kind.
type atomicKind uint32

const (
	kindAtomic atomicKind = iota
	kindFetchAtomic
	kindCompareAtomic
)

func (k atomicKind) String() string {
	return [...]string{"fi_atomicmsg", "fi_fetch_atomicmsg", "fi_compare_atomicmsg"}[k]
}

// Atomic posts atomics that bring nothing back, as [Endpoint.Write] posts writes.
//
// Implements:
//
//	ssize_t fi_atomic(struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t dest_addr, uint64_t addr,
//		uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
//	ssize_t fi_atomicv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t dest_addr,
//		uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
//	ssize_t fi_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
//	ssize_t fi_inject_atomic(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr, uint64_t addr,
//		uint64_t key, enum fi_datatype datatype, enum fi_op op)
func (ep *Endpoint) Atomic(ops []AtomicOp, segs []Seg) (accepted int, err error) {
	return ep.postAtomics(kindAtomic, ops, segs)
}

// FetchAtomic posts atomics that bring back what was there before.
//
// Implements:
//
//	ssize_t fi_fetch_atomic(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void *result_desc,
//		fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
//	ssize_t fi_fetch_atomicv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, struct fi_ioc *resultv,
//		void **result_desc, size_t result_count, fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
//		enum fi_op op, void *context)
//	ssize_t fi_fetch_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *resultv, void **result_desc,
//		size_t result_count, uint64_t flags)
func (ep *Endpoint) FetchAtomic(ops []AtomicOp, segs []Seg) (accepted int, err error) {
	return ep.postAtomics(kindFetchAtomic, ops, segs)
}

// CompareAtomic posts atomics that compare first, and bring back what was there before.
//
// Implements:
//
//	ssize_t fi_compare_atomic(struct fid_ep *ep, const void *buf, size_t count, void *desc, const void *compare,
//		void *compare_desc, void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
//		enum fi_datatype datatype, enum fi_op op, void *context)
//	ssize_t fi_compare_atomicv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
//		const struct fi_ioc *comparev, void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc,
//		size_t result_count, fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
//		void *context)
//	ssize_t fi_compare_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, const struct fi_ioc *comparev,
//		void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc, size_t result_count,
//		uint64_t flags)
func (ep *Endpoint) CompareAtomic(ops []AtomicOp, segs []Seg) (accepted int, err error) {
	return ep.postAtomics(kindCompareAtomic, ops, segs)
}

func (ep *Endpoint) postAtomics(k atomicKind, ops []AtomicOp, segs []Seg) (accepted int, err error) {
	ep.use()
	if err := ep.life.Enter(); err != nil {
		return 0, err
	}
	accepted, result := cPostAtomics(ep.ptr, k, ops, segs)
	ep.life.Exit()
	if result != 0 {
		return ep.refused(k.String(), result, accepted, len(ops), len(segs))
	}
	return accepted, nil
}

// AtomicValid tells how many values one Atomic of the endpoint may have; where its provider has none such, the error wraps
// [errors.ErrUnsupported].
//
// Implements:
//
//	int fi_atomicvalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
func (ep *Endpoint) AtomicValid(datatype Datatype, operator AtomicOperator) (values int, err error) {
	return ep.valid(kindAtomic, datatype, operator)
}

// FetchAtomicValid is AtomicValid for FetchAtomic.
//
// Implements:
//
//	int fi_fetch_atomicvalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
func (ep *Endpoint) FetchAtomicValid(datatype Datatype, operator AtomicOperator) (values int, err error) {
	return ep.valid(kindFetchAtomic, datatype, operator)
}

// CompareAtomicValid is AtomicValid for CompareAtomic.
//
// Implements:
//
//	int fi_compare_atomicvalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
func (ep *Endpoint) CompareAtomicValid(datatype Datatype, operator AtomicOperator) (values int, err error) {
	return ep.valid(kindCompareAtomic, datatype, operator)
}

func (ep *Endpoint) valid(k atomicKind, datatype Datatype, operator AtomicOperator) (int, error) {
	if err := ep.life.Enter(); err != nil {
		return 0, err
	}
	defer ep.life.Exit()
	return cAtomicValid(ep.ptr, k, datatype, operator)
}

// QueryAtomic is AtomicValid before there is an endpoint, with the bytes of the datatype as the provider has it.
//
// Implements:
//
//	int fi_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr,
//		uint64_t flags)
func (d *Domain) QueryAtomic(datatype Datatype, operator AtomicOperator) (values, size int, err error) {
	if err := d.life.Enter(); err != nil {
		return 0, 0, err
	}
	defer d.life.Exit()
	return cQueryAtomic(d.ptr, datatype, operator)
}
