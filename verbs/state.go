package verbs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// QPState is a queue pair's state (enum ibv_qp_state).
type QPState uint32

// The states of a queue pair.
const (
	QPReset QPState = iota
	QPInit          // receives can be posted
	QPRTR           // ready to receive
	QPRTS           // ready to send
	QPSQD           // send queue draining
	QPSQE           // send queue error
	QPError         // everything posted is flushed
)

func (s QPState) String() string {
	return name(s, "reset", "init", "ready to receive", "ready to send", "send queue draining", "send queue error", "error")
}

// Endpoint is what one end of a reliable connection must tell the other, by whatever way.
type Endpoint struct {
	QPN      uint32 // 24 bits
	PSN      uint32 // 24 bits, where its sends begin
	GID      GID
	LID      uint16 // InfiniBand
	MTU      MTU    // the largest it can take
	RdAtomic uint8  // how many reads and atomics it takes at a time as target
}

func (e *Endpoint) validate() error {
	switch {
	case e.QPN == 0 || e.QPN >= 1<<24:
		return invalid("remote endpoint: QPN %#x is not a queue pair's number of 24 bits", e.QPN)
	case e.PSN >= 1<<24:
		return invalid("remote endpoint: PSN %#x has more than 24 bits", e.PSN)
	case e.MTU.Code() == 0:
		return invalid("remote endpoint: MTU %d is not one of the MTU constants", uint32(e.MTU))
	case e.GID.IsZero() && e.LID == 0:
		return invalid("remote endpoint: it needs a GID or a LID")
	}
	return nil
}

// Init brings a new RC or UC queue pair from reset to init on the port of gid, and returns the local endpoint, with a random
// PSN. Receives can be posted from then on, and should be before the peer learns of the endpoint. access is what peers
// may do through this queue pair with memory that allows it.
//
// Implements:
//
//	int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (qp *QP) Init(gid GIDEntry, access AccessFlags) (Endpoint, error) {
	if err := qp.life.Enter(); err != nil {
		return Endpoint{}, err
	}
	defer qp.life.Exit()
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if err := qp.expect("Init", QPReset, RC, UC); err != nil {
		return Endpoint{}, err
	}
	port, err := qp.usePort(gid.Port)
	if err == nil {
		err = qp.checkPKey(&port)
	}
	if err != nil {
		return Endpoint{}, err
	}
	err = qp.modify(QPInit, &qpAttr{
		mask: uint32(AttrPKeyIndex | AttrPort | AttrAccess), port: gid.Port, access: uint32(access),
		pkeyIndex: qp.cfg.PKeyIndex,
	})
	if err != nil {
		return Endpoint{}, err
	}
	qp.gid = gid
	qp.local = Endpoint{
		QPN: qp.num, PSN: randomPSN(), GID: gid.GID, LID: port.LID, MTU: port.ActiveMTU,
		RdAtomic: clampUint8(qp.pd.ctx.attr.MaxQPRdAtom),
	}
	return qp.local, nil
}

// usePort checks that the port carries data and learns its largest message.
func (qp *QP) usePort(port uint8) (PortAttr, error) {
	attr, err := qp.learnPort(port)
	if err != nil {
		return PortAttr{}, err
	}
	if attr.State != PortActive {
		return PortAttr{}, fmt.Errorf("QP %d: port %d of %s is %v: set its network interface up", qp.num, port,
			qp.pd.ctx.name, attr.State)
	}
	return attr, nil
}

// learnPort tells the shim the largest message of the port that the queue pair is on.
func (qp *QP) learnPort(port uint8) (PortAttr, error) {
	attr, err := qp.pd.ctx.QueryPort(port)
	if err != nil {
		return PortAttr{}, err
	}
	longest := attr.MaxMessage
	switch qp.Type() {
	case UD:
		longest = uint32(attr.ActiveMTU) // a datagram is one packet
	case SRD:
		longest = math.MaxUint32 // EFA's port tells that of sends; that of writes and reads is known to efadv alone
	}
	qp.port = port
	qp.setMaxMessage(longest)
	return attr, nil
}

// setMaxMessage is for posts, which may go on meanwhile.
func (qp *QP) setMaxMessage(bytes uint32) {
	qp.longest.Store(bytes)
	cSetMaxMessage(qp.ptr, bytes)
}

// checkPKey checks that the port has the P_Key that the queue pair is to use.
func (qp *QP) checkPKey(port *PortAttr) error {
	if int(qp.cfg.PKeyIndex) >= max(port.PKeys, 1) {
		return invalid("QP %d: PKeyIndex is %d, the port's table has %d", qp.num, qp.cfg.PKeyIndex, port.PKeys)
	}
	return nil
}

// AlternatePath is a second path to the same remote queue pair, which the device goes over to by itself when packets on the
// first are lost (automatic path migration). Only InfiniBand has it. Both ends name one.
type AlternatePath struct {
	GID       GIDEntry // ours, of any port
	RemoteGID GID
	RemoteLID uint16
	PKeyIndex uint16 // of the port's P_Key table
	// Timeout is that of [ConnectConfig] on this path; 0 is 67 ms (code 14).
	Timeout time.Duration
	Path
}

// ConnectConfig says how a reliable connection behaves. The zero value has the defaults of each field.
type ConnectConfig struct {
	// Timeout is how long to wait for an acknowledgement before sending again; devices round it up to 4.096 µs times a
	// power of two and may wait up to four times as long. 0 is 67 ms (code 14).
	Timeout time.Duration
	// RetryCount is how often to send again, 1 to 7; 0 is 6. 7 is a bad choice: with it rxe of kernel 6.1 retries for ever.
	RetryCount uint8
	// RNRRetry is how often to send again when the peer has no receive posted, 1 to 7; 0 is 7, which is without end.
	RNRRetry uint8
	// MinRNRTimer is what this end asks a peer to wait before such a retry, rounded up to a time of the table in IBTA
	// volume 1, 9.7.5.2.8; 0 is 0.64 ms.
	MinRNRTimer time.Duration
	// Alternate, if it is not nil, is armed with the connection: see [EventPathMigrated].
	Alternate *AlternatePath
	Path
}

func (cfg *ConnectConfig) validate() error {
	switch {
	case cfg.Timeout < 0 || cfg.MinRNRTimer < 0:
		return invalid("connect: a time of ConnectConfig is negative")
	case cfg.RetryCount > 7 || cfg.RNRRetry > 7:
		return invalid("connect: RetryCount %d or RNRRetry %d is more than 7", cfg.RetryCount, cfg.RNRRetry)
	}
	return nil
}

// Connect brings an RC or UC queue pair from init to ready to send, connected to the remote endpoint. The path MTU is the
// smaller of the two ends'; reads and atomics are clamped to what each end takes and starts. The index of our GID is looked
// up again, since it changes when an address goes and comes.
//
// Implements:
//
//	int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (qp *QP) Connect(remote Endpoint, cfg ConnectConfig) error {
	if err := qp.life.Enter(); err != nil {
		return err
	}
	defer qp.life.Exit()
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if err := qp.expect("Connect", QPInit, RC, UC); err != nil {
		return err
	}
	if err := remote.validate(); err != nil {
		return err
	}
	if err := cfg.validate(); err != nil {
		return err
	}
	gid, err := qp.pd.ctx.FindGID(qp.gid)
	if err != nil {
		return err
	}
	ah, err := cfg.Path.attr(gid.Port, gid.Index, remote.GID, remote.LID)
	if err != nil {
		return err
	}
	toRTR := qpAttr{
		mask: uint32(AttrPath | AttrPathMTU | AttrRemoteQPN | AttrRQPSN),
		ah:   ah, pathMTU: uint32(min(qp.local.MTU, remote.MTU).Code()), remoteQPN: remote.QPN, rqPSN: remote.PSN,
	}
	toRTS := qpAttr{mask: uint32(AttrSQPSN), sqPSN: qp.local.PSN}
	if qp.Type() == RC {
		toRTR.mask |= uint32(AttrMaxDestRdAtomic | AttrMinRNRTimer)
		toRTR.maxDestRdAtomic = qp.local.RdAtomic
		toRTR.minRNRTimer = rnrTimerCode(orDefault(cfg.MinRNRTimer, 640*time.Microsecond))
		toRTS.mask |= uint32(AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrMaxRdAtomic)
		toRTS.timeout = timeoutCode(orDefault(cfg.Timeout, 67*time.Millisecond))
		toRTS.retry, toRTS.rnrTry = orDefault(cfg.RetryCount, 6), orDefault(cfg.RNRRetry, 7)
		toRTS.maxRdAtomic = min(clampUint8(qp.pd.ctx.attr.MaxQPInitRdAtom), remote.RdAtomic)
	}
	if cfg.Alternate != nil {
		if err := qp.arm(cfg.Alternate, &toRTR, &toRTS); err != nil {
			return err
		}
	}
	if err := qp.modify(QPRTR, &toRTR); err != nil {
		return err
	}
	return qp.modify(QPRTS, &toRTS)
}

// arm adds an alternate path to the last two steps of bring-up.
func (qp *QP) arm(alt *AlternatePath, toRTR, toRTS *qpAttr) error {
	port, err := qp.pd.ctx.QueryPort(alt.GID.Port)
	switch {
	case err != nil:
		return err
	case port.LinkLayer == LinkLayerEthernet:
		return fmt.Errorf("verbs: QP %d: port %d of %s is Ethernet, which has no alternate paths: %w", qp.num, alt.GID.Port,
			qp.pd.ctx.name, errors.ErrUnsupported)
	case int(alt.PKeyIndex) >= max(port.PKeys, 1):
		return invalid("alternate path: PKeyIndex is %d, the port's table has %d", alt.PKeyIndex, port.PKeys)
	case alt.RemoteGID.IsZero() && alt.RemoteLID == 0:
		return invalid("alternate path: neither a GID nor a LID")
	case alt.Timeout < 0:
		return invalid("alternate path: a negative time")
	}
	if toRTR.altAH, err = alt.Path.attr(alt.GID.Port, alt.GID.Index, alt.RemoteGID, alt.RemoteLID); err != nil {
		return err
	}
	toRTR.mask |= uint32(AttrAltPath)
	toRTR.altPort, toRTR.altPKeyIndex = alt.GID.Port, alt.PKeyIndex
	toRTR.altTimeout = timeoutCode(orDefault(alt.Timeout, 67*time.Millisecond))
	toRTS.mask |= uint32(AttrMigState)
	toRTS.migState = uint32(MigRearm)
	return nil
}

// Activate brings a new UD or SRD queue pair from reset to ready to send on the port, with a random PSN. Only senders that give
// its qkey reach it.
//
// Implements:
//
//	int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (qp *QP) Activate(port uint8, qkey uint32) error {
	if err := qp.life.Enter(); err != nil {
		return err
	}
	defer qp.life.Exit()
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if err := qp.expect("Activate", QPReset, UD, SRD); err != nil {
		return err
	}
	attr, err := qp.usePort(port)
	if err == nil {
		err = qp.checkPKey(&attr)
	}
	if err != nil {
		return err
	}
	mask := uint32(AttrPKeyIndex | AttrPort | AttrQKey)
	if err := qp.modify(QPInit, &qpAttr{mask: mask, port: port, qkey: qkey, pkeyIndex: qp.cfg.PKeyIndex}); err != nil {
		return err
	}
	if err := qp.modify(QPRTR, &qpAttr{}); err != nil {
		return err
	}
	return qp.modify(QPRTS, &qpAttr{mask: uint32(AttrSQPSN), sqPSN: randomPSN()})
}

// SetError moves the queue pair to the error state, from any other: everything posted completes, what was not carried out
// with WCFlushed, and so do sends that are posted later. Receives that are posted later should, but on rxe of kernel 6.1
// they never complete.
//
// After a completion with an error it is done already, by the poll that found it: on that rxe, work requests posted to a
// queue pair that went to the error state by itself never complete.
func (qp *QP) SetError() error {
	if err := qp.life.Enter(); err != nil {
		return err
	}
	defer qp.life.Exit()
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.modify(QPError, &qpAttr{})
}

// Reset takes the queue pair back to the reset state, from any other, so that it can be brought up again under its number.
// What is posted is dropped without completions.
//
// Poll what has completed before. Some drivers (rxe) leave it in the completion queue, where it takes places that the queue pair
// counts on, and one with an error then fails the queue pair that is up again: it does not tell of which time it is.
//
// Implements:
//
//	int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (qp *QP) Reset() error {
	if err := qp.life.Enter(); err != nil {
		return err
	}
	defer qp.life.Exit()
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.modify(QPReset, &qpAttr{})
}

// State asks the device for the state.
//
// Implements:
//
//	int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
func (qp *QP) State() (QPState, error) {
	if err := qp.life.Enter(); err != nil {
		return 0, err
	}
	defer qp.life.Exit()
	attr, err := cQueryQP(qp.ptr, uint32(AttrState))
	return QPState(attr.state), err
}

// expect checks that a step of bring-up has its turn.
func (qp *QP) expect(step string, state QPState, types ...QPType) error {
	switch {
	case !slices.Contains(types, qp.Type()):
		return invalid("%s: QP %d is %v, this is for %v", step, qp.num, qp.Type(), types)
	case qp.state != state:
		return invalid("%s: QP %d is in state %v, this is for %v", step, qp.num, qp.state, state)
	}
	return nil
}

// modify moves the queue pair to the state, with the attributes of the mask.
func (qp *QP) modify(to QPState, attr *qpAttr) error {
	attr.mask |= uint32(AttrState)
	attr.state = uint32(to)
	if err := cModifyQP(qp.ptr, attr); err != nil {
		return fmt.Errorf("QP %d from %v to %v: %w", qp.num, qp.state, to, err)
	}
	qp.state = to
	return nil
}
