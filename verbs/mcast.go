package verbs

import (
	"fmt"
	"math"
)

// AttachMulticast has a UD queue pair take datagrams to a multicast group, of which the GID begins with 0xff, or is an IPv4
// multicast address. lid is the group's on InfiniBand, as the subnet administrator gave it; 0 on RoCE.
//
// Implements:
//
//	int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (qp *QP) AttachMulticast(group GID, lid uint16) error { return qp.multicast(group, lid, true) }

// DetachMulticast takes it out of the group.
//
// Implements:
//
//	int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (qp *QP) DetachMulticast(group GID, lid uint16) error { return qp.multicast(group, lid, false) }

func (qp *QP) multicast(group GID, lid uint16, attach bool) error {
	if err := qp.life.Enter(); err != nil {
		return err
	}
	defer qp.life.Exit()
	if qp.Type() != UD || !group.Addr().IsMulticast() {
		return invalid("multicast group %v: QP %d is %v; a multicast address and a UD queue pair are needed", group, qp.num,
			qp.Type())
	}
	if err := cMulticast(qp.ptr, &group, lid, attach); err != nil {
		return fmt.Errorf("multicast group %v: %w", group, err)
	}
	return nil
}

// SetRateLimit bounds how fast the queue pair sends: kbit/s, 0 for no bound, in bursts of at most burst bytes, for packets of
// typically so many bytes; 0 leaves these two to the device. Where the driver does not know it the error wraps
// [errors.ErrUnsupported].
//
// Implements:
//
//	int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
func (qp *QP) SetRateLimit(kbps, burst, packet int) error {
	if err := qp.life.Enter(); err != nil {
		return err
	}
	defer qp.life.Exit()
	if min(kbps, burst, packet) < 0 || max(kbps, burst) > math.MaxUint32 || packet > math.MaxUint16 {
		return invalid("rate limit: %d kbit/s, bursts of %d and packets of %d bytes are out of range", kbps, burst, packet)
	}
	return cRateLimit(qp.ptr, uint32(kbps), uint32(burst), uint16(packet))
}

// DataInOrder tells whether the bytes of such a work request reach memory in the order of their addresses, so that a target
// may poll the last one. Where the library cannot tell, it is false.
//
// Implements:
//
//	int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
func (qp *QP) DataInOrder(op Opcode) (bool, error) {
	if err := qp.life.Enter(); err != nil {
		return false, err
	}
	defer qp.life.Exit()
	return cDataInOrder(qp.ptr, op), nil
}
