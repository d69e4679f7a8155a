package verbs

import (
	"syscall"
	"time"

	"github.com/weftrdma/weft/internal/mem"
)

// CQTimestamps are times that a device keeps of each completion (of enum ibv_create_cq_wc_flags).
type CQTimestamps uint32

// The times of a completion.
const (
	TimestampTicks CQTimestamps = 1 << iota // of the device's counter, which [Context.Clock] reads
	TimestampWall                           // of its wall clock
)

// WCTime is when a device completed a work request, as far as its queue keeps the time. Completions with an error have none.
type WCTime struct {
	Ticks  Ticks // with TimestampTicks; [ExtendedAttr.Between] makes time of two
	WallNS int64 // with TimestampWall: nanoseconds since 1970, UTC
}

// Wall is WallNS as a time.
func (t WCTime) Wall() time.Time { return time.Unix(0, t.WallNS) }

// Timestamps are the times that [CQ.PollTimes] gives.
func (cq *CQ) Timestamps() CQTimestamps { return cq.timestamps }

// PollTimes is [CQ.Poll] for a queue with [CQConfig].Timestamps: times[i] is when wcs[i] completed. times is at least as long
// as wcs. All completions are read in one crossing.
//
// Implements:
//
//	int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
//	int ibv_next_poll(struct ibv_cq_ex *cq)
//	void ibv_end_poll(struct ibv_cq_ex *cq)
//	enum ibv_wc_opcode ibv_wc_read_opcode(struct ibv_cq_ex *cq)
//	uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq)
//	uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq)
//	__be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq)
//	uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq)
//	uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq)
//	uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq)
//	unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq)
//	uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq)
//	uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq)
//	uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq)
//	uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq)
//	uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
func (cq *CQ) PollTimes(wcs []WC, times []WCTime) (int, error) {
	if !cq.extended {
		return 0, invalid("poll times of a completion queue that was made without Timestamps")
	}
	if len(times) < len(wcs) {
		return 0, invalid("poll %d completions with room for the times of %d", len(wcs), len(times))
	}
	mem.Writes(wcs) // before Enter, as in poll
	mem.Writes(times)
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	n := cPollCQTimes(cq.ptr, wcs, times)
	cq.life.Exit() // not deferred, which costs a call
	if n < 0 {
		return 0, &Error{Op: "ibv_start_poll", Err: syscall.Errno(-n)}
	}
	if n == 0 && len(wcs) > 0 && cq.failed.Load() {
		return 0, ErrCQFailed
	}
	return n, nil
}
