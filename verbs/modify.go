package verbs

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// QPAttrMask names attributes of a queue pair (enum ibv_qp_attr_mask).
type QPAttrMask uint32

// The attributes of queue pairs that this binding changes.
const (
	AttrState           QPAttrMask = 1 << 0
	AttrCurrentState    QPAttrMask = 1 << 1
	AttrSQDNotify       QPAttrMask = 1 << 2
	AttrAccess          QPAttrMask = 1 << 3
	AttrPKeyIndex       QPAttrMask = 1 << 4
	AttrPort            QPAttrMask = 1 << 5
	AttrQKey            QPAttrMask = 1 << 6
	AttrPath            QPAttrMask = 1 << 7 // IBV_QP_AV
	AttrPathMTU         QPAttrMask = 1 << 8
	AttrTimeout         QPAttrMask = 1 << 9
	AttrRetryCount      QPAttrMask = 1 << 10
	AttrRNRRetry        QPAttrMask = 1 << 11
	AttrRQPSN           QPAttrMask = 1 << 12
	AttrMaxRdAtomic     QPAttrMask = 1 << 13
	AttrAltPath         QPAttrMask = 1 << 14 // with AltPKeyIndex and AltTimeout
	AttrMinRNRTimer     QPAttrMask = 1 << 15
	AttrSQPSN           QPAttrMask = 1 << 16
	AttrMaxDestRdAtomic QPAttrMask = 1 << 17
	AttrMigState        QPAttrMask = 1 << 18 // IBV_QP_PATH_MIG_STATE
	AttrRemoteQPN       QPAttrMask = 1 << 20
	AttrRateLimit       QPAttrMask = 1 << 25
)

// attrNames are the fields of [QPAttr] by the bits of the mask.
var attrNames = [...]string{
	0: "State", 1: "CurrentState", 2: "SQDNotify", 3: "Access", 4: "PKeyIndex", 5: "Port", 6: "QKey", 7: "Path",
	8: "PathMTU", 9: "Timeout", 10: "RetryCount", 11: "RNRRetry", 12: "RQPSN", 13: "MaxRdAtomic", 14: "AltPath",
	15: "MinRNRTimer", 16: "SQPSN", 17: "MaxDestRdAtomic", 18: "MigState", 20: "RemoteQPN", 25: "RateLimit",
}

// String lists the attributes by their names in [QPAttr].
func (m QPAttrMask) String() string {
	var names []string
	for rest := uint32(m); rest != 0; rest &= rest - 1 {
		bit := bits.TrailingZeros32(rest)
		if bit < len(attrNames) && attrNames[bit] != "" {
			names = append(names, attrNames[bit])
		} else {
			names = append(names, fmt.Sprintf("bit %d", bit))
		}
	}
	return strings.Join(names, ", ")
}

// QPAttr is what [QP.Modify] changes and [QP.Query] returns (struct ibv_qp_attr). Times are rounded up to what the verbs
// interface can say.
type QPAttr struct {
	State           QPState
	CurrentState    QPState // the state that the owner takes it to be in
	SQDNotify       bool    // report EventSQDrained
	SQDraining      bool    // query only
	Access          AccessFlags
	PKeyIndex       uint16
	Port            uint8
	QKey            uint32
	Path            AHConfig
	PathMTU         MTU
	Timeout         time.Duration // 0 is for ever
	RetryCount      uint8
	RNRRetry        uint8
	RQPSN, SQPSN    uint32
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8
	MinRNRTimer     time.Duration
	RemoteQPN       uint32
	RateLimit       uint32 // kbit/s
	AltPath         AHConfig
	AltPKeyIndex    uint16        // of AltPath.Port
	AltTimeout      time.Duration // 0 is for ever
	MigState        MigState
}

// MigState is how far a queue pair is with its alternate path (enum ibv_mig_state).
type MigState uint32

// The states of path migration. The owner sets MigRearm when an alternate path is set, and MigMigrated to go over to it;
// the device makes MigArmed of MigRearm when the peer is ready too, and reports [EventPathMigrated] when it went over by itself.
const (
	MigMigrated MigState = iota
	MigRearm
	MigArmed
)

func (s MigState) String() string { return name(s, "migrated", "rearm", "armed") }

// qpAttr is struct weft_qp_attr.
type qpAttr struct {
	mask, state, pathMTU, qkey, rqPSN, sqPSN, remoteQPN, access       uint32
	currentState, rateLimit, migState                                 uint32
	ah, altAH                                                         ahAttr
	pkeyIndex, altPKeyIndex                                           uint16
	altPort, altTimeout                                               uint8
	maxRdAtomic, maxDestRdAtomic, minRNRTimer, timeout, retry, rnrTry uint8
	port, sqdNotify, sqDraining                                       uint8
	_                                                                 uint8
}

// step is a change of state, and steps what it needs and what else it takes (IBTA volume 1, table 91), without the state
// itself. Any state goes to reset and error with nothing.
type step struct {
	typ      QPType
	from, to QPState
}

type attrs struct{ needs, takes QPAttrMask }

const (
	connInit = AttrPKeyIndex | AttrPort | AttrAccess
	ucRTR    = AttrPath | AttrPathMTU | AttrRemoteQPN | AttrRQPSN
	rcRTR    = ucRTR | AttrMaxDestRdAtomic | AttrMinRNRTimer
	rcRTS    = AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrSQPSN | AttrMaxRdAtomic
	udAlways = AttrCurrentState | AttrQKey
	ucAlways = AttrCurrentState | AttrAccess
	rcAlways = ucAlways | AttrMinRNRTimer
	altPath  = AttrAltPath | AttrMigState
)

var steps = map[step]attrs{
	{UD, QPReset, QPInit}: {AttrPKeyIndex | AttrPort | AttrQKey, 0},
	{UD, QPInit, QPInit}:  {0, AttrPKeyIndex | AttrPort | AttrQKey},
	{UD, QPInit, QPRTR}:   {0, AttrPKeyIndex | AttrQKey},
	{UD, QPRTR, QPRTS}:    {AttrSQPSN, udAlways | AttrRateLimit},
	{UD, QPRTS, QPRTS}:    {0, udAlways | AttrRateLimit},
	{UD, QPRTS, QPSQD}:    {0, AttrSQDNotify},
	{UD, QPSQD, QPRTS}:    {0, udAlways},
	{UD, QPSQD, QPSQD}:    {0, AttrPKeyIndex | AttrQKey},
	{UD, QPSQE, QPRTS}:    {0, udAlways},

	{UC, QPReset, QPInit}: {connInit, 0},
	{UC, QPInit, QPInit}:  {0, connInit},
	{UC, QPInit, QPRTR}:   {ucRTR, AttrAccess | AttrPKeyIndex | AttrAltPath},
	{UC, QPRTR, QPRTS}:    {AttrSQPSN, ucAlways | AttrRateLimit | altPath},
	{UC, QPRTS, QPRTS}:    {0, ucAlways | AttrRateLimit | altPath},
	{UC, QPRTS, QPSQD}:    {0, AttrSQDNotify},
	{UC, QPSQD, QPRTS}:    {0, ucAlways | altPath},
	{UC, QPSQD, QPSQD}:    {0, AttrPath | AttrAccess | AttrPKeyIndex | altPath},
	{UC, QPSQE, QPRTS}:    {0, ucAlways},

	{RC, QPReset, QPInit}: {connInit, 0},
	{RC, QPInit, QPInit}:  {0, connInit},
	{RC, QPInit, QPRTR}:   {rcRTR, AttrAccess | AttrPKeyIndex | AttrAltPath},
	{RC, QPRTR, QPRTS}:    {rcRTS, rcAlways | AttrRateLimit | altPath},
	{RC, QPRTS, QPRTS}:    {0, rcAlways | AttrRateLimit | altPath},
	{RC, QPRTS, QPSQD}:    {0, AttrSQDNotify},
	{RC, QPSQD, QPRTS}:    {0, rcAlways | altPath},
	{RC, QPSQD, QPSQD}: {0, AttrPort | AttrPath | AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrMaxRdAtomic |
		AttrMaxDestRdAtomic | AttrAccess | AttrPKeyIndex | AttrMinRNRTimer | altPath},
}

// checkStep checks a change of state against the table; the error names the attribute.
func checkStep(typ QPType, from, to QPState, mask QPAttrMask) error {
	as := typ
	if typ == SRD {
		as = UD // a datagram's steps are the same
	}
	rule, known := steps[step{as, from, to}]
	if to == QPReset || to == QPError {
		rule, known = attrs{}, true
	}
	mask &^= AttrState
	switch missing, extra := rule.needs&^mask, mask&^(rule.needs|rule.takes); {
	case !known:
		return invalid("a %v queue pair does not go from %v to %v", typ, from, to)
	case missing != 0:
		return invalid("a %v queue pair from %v to %v needs %v", typ, from, to, missing)
	case extra != 0:
		return invalid("a %v queue pair from %v to %v does not take %v", typ, from, to, extra)
	}
	return nil
}

// Modify changes the attributes of the mask: the manual path, for what [QP.Init], [QP.Connect] and [QP.Activate] do not do.
// A change of state is checked first against what it needs and takes; the error names the attribute. Without AttrState the
// state stays. The port may come up later: unlike [QP.Init], Modify takes one that is not active.
//
// Implements:
//
//	int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (qp *QP) Modify(attr QPAttr, mask QPAttrMask) error {
	if err := qp.life.Enter(); err != nil {
		return err
	}
	defer qp.life.Exit()
	qp.mu.Lock()
	defer qp.mu.Unlock()
	from, to := qp.state, qp.state
	if mask&AttrCurrentState != 0 { // the device has moved it
		from = attr.CurrentState
	}
	if mask&AttrState != 0 {
		to = attr.State
	}
	if err := checkStep(qp.Type(), from, to, mask); err != nil {
		return fmt.Errorf("QP %d: %w", qp.num, err)
	}
	raw, err := attr.encode(mask)
	if err != nil {
		return fmt.Errorf("QP %d: %w", qp.num, err)
	}
	port := qp.port
	if mask&AttrPort != 0 {
		port = attr.Port
	}
	// The port need not be active yet. Its MTU may be another once it is, which it should be when the queue pair goes on.
	if port != 0 && (mask&AttrPort != 0 || to == QPRTR || to == QPRTS) {
		if _, err := qp.learnPort(port); err != nil {
			return err
		}
	}
	return qp.modify(to, &raw)
}

// encode checks the values of the mask and puts them into the codes of the verbs interface.
func (a *QPAttr) encode(mask QPAttrMask) (raw qpAttr, err error) {
	has := func(m QPAttrMask) bool { return mask&m != 0 }
	switch {
	case has(AttrPathMTU) && a.PathMTU.Code() == 0:
		return raw, invalid("modify queue pair: PathMTU %d is not one of the MTU constants", uint32(a.PathMTU))
	case has(AttrRemoteQPN) && a.RemoteQPN >= 1<<24, has(AttrRQPSN) && a.RQPSN >= 1<<24, has(AttrSQPSN) && a.SQPSN >= 1<<24:
		return raw, invalid("modify queue pair: RemoteQPN %#x, RQPSN %#x or SQPSN %#x is longer than 24 bits", a.RemoteQPN, a.RQPSN, a.SQPSN)
	case has(AttrRetryCount) && a.RetryCount > 7, has(AttrRNRRetry) && a.RNRRetry > 7:
		return raw, invalid("modify queue pair: RetryCount %d or RNRRetry %d is more than 7", a.RetryCount, a.RNRRetry)
	}
	raw = qpAttr{
		mask: uint32(mask), qkey: a.QKey, rqPSN: a.RQPSN, sqPSN: a.SQPSN, remoteQPN: a.RemoteQPN,
		access: uint32(a.Access), currentState: uint32(a.CurrentState), rateLimit: a.RateLimit, pkeyIndex: a.PKeyIndex,
		maxRdAtomic: a.MaxRdAtomic, maxDestRdAtomic: a.MaxDestRdAtomic, retry: a.RetryCount, rnrTry: a.RNRRetry,
		port: a.Port, pathMTU: uint32(a.PathMTU.Code()), minRNRTimer: rnrTimerCode(a.MinRNRTimer),
		migState: uint32(a.MigState), altPKeyIndex: a.AltPKeyIndex, altPort: a.AltPath.Port,
	}
	if a.AltTimeout != 0 {
		raw.altTimeout = timeoutCode(a.AltTimeout)
	}
	if a.Timeout != 0 {
		raw.timeout = timeoutCode(a.Timeout)
	}
	if a.SQDNotify {
		raw.sqdNotify = 1
	}
	if has(AttrPath) {
		raw.ah, err = a.Path.encode()
	}
	if has(AttrAltPath) && err == nil {
		raw.altAH, err = a.AltPath.encode()
	}
	return raw, err
}

// Query asks the device for the attributes of the mask; others may be filled in as well.
//
// Implements:
//
//	int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
func (qp *QP) Query(mask QPAttrMask) (QPAttr, error) {
	if err := qp.life.Enter(); err != nil {
		return QPAttr{}, err
	}
	defer qp.life.Exit()
	raw, err := cQueryQP(qp.ptr, uint32(mask))
	if err != nil {
		return QPAttr{}, fmt.Errorf("QP %d: %w", qp.num, err)
	}
	return raw.export(), nil
}

func (raw *qpAttr) export() QPAttr {
	return QPAttr{
		State: QPState(raw.state), CurrentState: QPState(raw.currentState), SQDNotify: raw.sqdNotify != 0,
		SQDraining: raw.sqDraining != 0, Access: AccessFlags(raw.access), PKeyIndex: raw.pkeyIndex, Port: raw.port,
		QKey: raw.qkey, PathMTU: MTUFromCode(uint8(raw.pathMTU)), Timeout: timeoutOf(raw.timeout), RetryCount: raw.retry,
		RNRRetry: raw.rnrTry, RQPSN: raw.rqPSN, SQPSN: raw.sqPSN, MaxRdAtomic: raw.maxRdAtomic,
		MaxDestRdAtomic: raw.maxDestRdAtomic, MinRNRTimer: rnrTimeOf(raw.minRNRTimer), RemoteQPN: raw.remoteQPN,
		RateLimit: raw.rateLimit, Path: raw.ah.export(), AltPath: raw.altAH.export(), AltPKeyIndex: raw.altPKeyIndex,
		AltTimeout: timeoutOf(raw.altTimeout), MigState: MigState(raw.migState),
	}
}
