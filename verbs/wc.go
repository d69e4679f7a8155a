package verbs

import "fmt"

// WC is one completion, laid out as the shim fills it (struct weft_wc). Where Status is not WCSuccess, only ID, Status,
// VendorErr and QPN are defined.
type WC struct {
	ID           uint64 // of the work request
	Status       WCStatus
	Opcode       WCOpcode
	VendorErr    uint32
	ByteLen      uint32 // of receives, with the 40 bytes of [GRHSize] on UD
	Imm          uint32 // host order; if Flags has WCWithImm. With WCWithInv, the key that was taken back
	QPN          uint32 // the local queue pair
	SrcQPN       uint32 // the sender's, on UD
	Flags        WCFlags
	PKeyIndex    uint16
	SLID         uint16
	SL           uint8
	DLIDPathBits uint8
	_            uint16
}

// WCFlags say which fields of a completion hold something (enum ibv_wc_flags).
type WCFlags uint32

// What WCFlags has.
const (
	WCGRH     WCFlags = 1 << 0 // the receive starts with a global route header
	WCWithImm WCFlags = 1 << 1 // Imm holds immediate data
	WCWithInv WCFlags = 1 << 3 // Imm holds the key of a window that the send took back
)

// WCOpcode is what completed (enum ibv_wc_opcode). Receives have the bit WCRecv.
type WCOpcode uint32

// The opcodes of completions.
const (
	WCSend         WCOpcode = 0
	WCWrite        WCOpcode = 1
	WCRead         WCOpcode = 2
	WCCompareSwap  WCOpcode = 3
	WCFetchAdd     WCOpcode = 4
	WCBindMW       WCOpcode = 5
	WCLocalInv     WCOpcode = 6
	WCRecv         WCOpcode = 1 << 7
	WCRecvWriteImm WCOpcode = WCRecv + 1
)

// WCStatus is how a work request ended (enum ibv_wc_status). It is an error: errors.Is(err, verbs.WCRetryExceeded).
type WCStatus uint32

// The statuses of completions, with their names in enum ibv_wc_status where they differ much.
const (
	WCSuccess              WCStatus = iota
	WCLocalLength                   // LOC_LEN_ERR: a message longer than the receive, or than allowed
	WCLocalQPOperation              // LOC_QP_OP_ERR
	WCLocalEECOperation             // LOC_EEC_OP_ERR
	WCLocalProtection               // LOC_PROT_ERR: the local keys or addresses do not fit
	WCFlushed                       // WR_FLUSH_ERR: an earlier error emptied the queue
	WCMWBind                        // MW_BIND_ERR
	WCBadResponse                   // BAD_RESP_ERR
	WCLocalAccess                   // LOC_ACCESS_ERR
	WCRemoteInvalidRequest          // REM_INV_REQ_ERR
	WCRemoteAccess                  // REM_ACCESS_ERR: the peer's key, address or rights refused it
	WCRemoteOperation               // REM_OP_ERR
	WCRetryExceeded                 // RETRY_EXC_ERR: the peer's NIC does not answer
	WCRNRRetryExceeded              // RNR_RETRY_EXC_ERR: the peer posted no receive
	WCLocalRDDViolation
	WCRemoteInvalidRDRequest
	WCRemoteAborted
	WCInvalidEECN
	WCInvalidEECState
	WCFatal
	WCResponseTimeout
	WCGeneral
	WCTagMatching
	WCTagMatchingRendezvous
)

// Error gives the status in words.
//
// Implements:
//
//	const char *ibv_wc_status_str(enum ibv_wc_status status)
func (s WCStatus) Error() string {
	return name(s, "success", "local length error", "local QP operation error", "local EE context operation error",
		"local protection error", "flushed after an earlier error", "memory window bind error", "bad response",
		"local access error", "remote invalid request", "remote access error", "remote operation error",
		"transport retry counter exceeded: the peer does not answer",
		"RNR retry counter exceeded: the peer has no receive posted", "local RDD violation",
		"remote invalid RD request", "remote aborted", "invalid EE context number", "invalid EE context state",
		"fatal error", "response timeout", "general error", "tag matching error", "tag matching rendezvous incomplete")
}

// CompletionError is a work request that ended with an error.
type CompletionError struct {
	ID        uint64
	QPN       uint32
	Status    WCStatus
	VendorErr uint32
}

// Err returns nil for a successful completion and a *CompletionError otherwise.
func (wc *WC) Err() error {
	if wc.Status == WCSuccess {
		return nil
	}
	return &CompletionError{ID: wc.ID, QPN: wc.QPN, Status: wc.Status, VendorErr: wc.VendorErr}
}

func (e *CompletionError) Error() string {
	return fmt.Sprintf("work request %d of QP %d: %v (vendor error %#x)", e.ID, e.QPN, e.Status, e.VendorErr)
}

// Unwrap returns the status, and [ErrFlushed] with WCFlushed.
func (e *CompletionError) Unwrap() []error {
	if e.Status == WCFlushed {
		return []error{e.Status, ErrFlushed}
	}
	return []error{e.Status}
}
