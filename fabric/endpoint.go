package fabric

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// EndpointConfig says what an endpoint works with.
type EndpointConfig struct {
	AV     *AV // its peers; not of an MSG endpoint
	TxCQ   *CQ // for what it sends, writes and reads
	RxCQ   *CQ // for what it receives, and for data that comes with writes; it may be the same
	EQ     *EQ // what happens to a connection; of an MSG endpoint
	Events []CounterEvents

	SelectiveTx bool // only operations with FlagCompletion complete in TxCQ, and failed ones
	SelectiveRx bool // likewise RxCQ
	// MinMultiRecv is how many bytes must be left in a buffer with FlagMultiRecv for the next message; 0 is the provider's.
	MinMultiRecv int
	SharedTx     *SharedTx // of an info with SharedTxContexts
	SharedRx     *Endpoint // likewise, of [Domain.OpenSharedRx]
	Options      []Option  // set before the endpoint is enabled
}

// CounterEvents has a counter count what an endpoint does: CapSend, CapRecv, CapRead, CapWrite, and CapRemoteRead and
// CapRemoteWrite for what peers do.
type CounterEvents struct {
	Counter *Counter
	Events  Caps
}

func (cfg *EndpointConfig) validate(info *Info) error {
	switch {
	case info == nil:
		return invalid("open endpoint: no info")
	case info.Type == Msg && cfg.AV != nil:
		return invalid("open endpoint: an MSG endpoint has one peer and takes no AV")
	case info.Type == Msg && cfg.EQ == nil:
		return invalid("open endpoint: an MSG endpoint needs an EQ")
	case info.Type != Msg && cfg.AV == nil:
		return invalid("open endpoint: an %v endpoint needs an AV", info.Type)
	case cfg.TxCQ == nil && cfg.RxCQ == nil && len(cfg.Events) == 0:
		return invalid("open endpoint: neither TxCQ, RxCQ nor a counter is given: nothing would tell what completed")
	case cfg.SelectiveTx && cfg.TxCQ == nil, cfg.SelectiveRx && cfg.RxCQ == nil:
		return invalid("open endpoint: a selective direction needs its completion queue")
	case cfg.MinMultiRecv < 0:
		return invalid("open endpoint: MinMultiRecv is %d", cfg.MinMultiRecv)
	}
	for i, e := range cfg.Events {
		if e.Counter == nil || e.Events == 0 {
			return invalid("open endpoint: Events %d names no counter or nothing to count", i)
		}
	}
	return nil
}

// Endpoint is what operations are posted to (struct fid_ep).
type Endpoint struct {
	life   life.Object
	domain *Domain
	info   *Info
	ptr    unsafe.Pointer // struct weft_fi_ep *
	raw    unsafe.Pointer // struct fid_ep *
	name   string         // in errors
	eq     *EQ

	holds   []*life.Object // keep what it works with open
	segment *segment       // of shm; nil otherwise
	mu      sync.Mutex     // guards options, which are not to be set concurrently
}

// OpenEndpoint opens an endpoint of an info of this domain and enables it. An MSG endpoint is then connected
// ([Endpoint.Connect]) or, with the info of a connection request, accepts it ([Endpoint.Accept]).
//
// An endpoint of shm has a name of its own under /dev/shm, unless the hints gave one, and those of processes that have died
// are removed there.
//
// Implements:
//
//	int fi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
//	int fi_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags, void *context)
//	int fi_ep_bind(struct fid_ep *ep, struct fid *bfid, uint64_t flags)
//	int fi_enable(struct fid_ep *ep)
func (d *Domain) OpenEndpoint(info *Info, cfg EndpointConfig) (*Endpoint, error) {
	if err := d.life.Enter(); err != nil {
		return nil, err
	}
	defer d.life.Exit()
	if err := cfg.validate(info); err != nil {
		return nil, err
	}
	ep := &Endpoint{domain: d, info: info, name: fmt.Sprintf("%v endpoint of %s", info.Type, info.Provider), eq: cfg.EQ}
	if err := ep.open(cfg); err != nil {
		return nil, fmt.Errorf("open %s: %w", ep.name, closeAfter(err, ep.abandon))
	}
	if err := ep.life.Init("endpoint", &d.life, ep.close); err != nil {
		return nil, closeAfter(err, ep.close)
	}
	return ep, nil
}

func (ep *Endpoint) open(cfg EndpointConfig) error {
	name := ""
	if ep.info.Provider == "shm" && !ep.info.named {
		var err error
		if ep.segment, err = newSegment(); err != nil {
			return err
		}
		name = ep.segment.address()
	}
	var err error
	if ep.ptr, err = cOpenEndpoint(ep.domain.ptr, ep.info, name); err != nil {
		return err
	}
	ep.raw = cRawEndpoint(ep.ptr)
	if err := ep.bind(cfg); err != nil {
		return err
	}
	options := cfg.Options
	if cfg.MinMultiRecv > 0 {
		options = append(options[:len(options):len(options)], SizeOption(optMinMultiRecv, cfg.MinMultiRecv))
	}
	early, late := splitOptions(options, libraryVersion())
	if err := ep.setAll(early); err != nil {
		return err
	}
	if err := cEnable(ep.ptr); err != nil {
		return err
	}
	return ep.setAll(late)
}

// splitOptions tells apart what is set before an endpoint is enabled, which is where options belong, and after. The least
// room of a multi-receive goes into a context that ofi_rxm of 1.17 makes as it is enabled, without looking whether it is
// there; providers of 2.x read it then.
func splitOptions(options []Option, library Version) (early, late []Option) {
	for _, option := range options {
		if option.Name == optMinMultiRecv && !library.AtLeast(1, 18) {
			late = append(late, option)
		} else {
			early = append(early, option)
		}
	}
	return early, late
}

func (ep *Endpoint) setAll(options []Option) error {
	for _, option := range options {
		if err := cSetOption(ep.raw, option.Name, option.Value); err != nil {
			return fmt.Errorf("option %d: %w", option.Name, err)
		}
	}
	return nil
}

// bind gives the endpoint what it works with, which stays open as long as it is.
func (ep *Endpoint) bind(cfg EndpointConfig) error {
	var steps []binding
	if cfg.AV != nil {
		steps = append(steps, binding{&cfg.AV.life, func() error { return cBindAV(ep.ptr, cfg.AV.ptr) }})
	}
	if cfg.EQ != nil {
		steps = append(steps, binding{&cfg.EQ.life, func() error { return cBindEQ(ep.ptr, cfg.EQ.ptr) }})
		cfg.EQ.know(ep.raw, ep)
	}
	if cfg.SharedTx != nil {
		steps = append(steps, binding{&cfg.SharedTx.life, func() error { return cBindSharedTx(ep.ptr, cfg.SharedTx.ptr) }})
	}
	if cfg.SharedRx != nil {
		steps = append(steps, binding{&cfg.SharedRx.life, func() error { return cBindSharedRx(ep.ptr, cfg.SharedRx.ptr) }})
	}
	steps = append(steps, ep.cqBindings(cfg)...)
	for _, e := range cfg.Events {
		steps = append(steps, binding{&e.Counter.life, func() error {
			return cBindCounter(ep.ptr, e.Counter.ptr, uint64(e.Events))
		}})
	}
	for _, step := range steps {
		if err := ep.take(step); err != nil {
			return err
		}
	}
	return nil
}

// binding is an object that an endpoint works with, and how it is told.
type binding struct {
	of   *life.Object
	call func() error
}

func (ep *Endpoint) take(b binding) error {
	held, err := hold("endpoint", b.of)
	if err != nil {
		return err
	}
	ep.holds = append(ep.holds, held)
	return b.call()
}

// flagSelective is FI_SELECTIVE_COMPLETION.
const flagSelective = 1 << 59

// cqBindings bind the completion queues: once where both directions share one and its flags.
func (ep *Endpoint) cqBindings(cfg EndpointConfig) (steps []binding) {
	add := func(cq *CQ, flags uint64) {
		steps = append(steps, binding{&cq.life, func() error { return cBindCQ(ep.ptr, cq.ptr, flags) }})
	}
	tx, rx := uint64(CapSend), uint64(CapRecv)
	if cfg.SelectiveTx {
		tx |= flagSelective
	}
	if cfg.SelectiveRx {
		rx |= flagSelective
	}
	if cfg.TxCQ != nil && cfg.TxCQ == cfg.RxCQ && cfg.SelectiveTx == cfg.SelectiveRx {
		add(cfg.TxCQ, tx|rx)
		return steps
	}
	if cfg.TxCQ != nil {
		add(cfg.TxCQ, tx)
	}
	if cfg.RxCQ != nil {
		add(cfg.RxCQ, rx)
	}
	return steps
}

// abandon gives back what was made of an endpoint that did not come to be.
func (ep *Endpoint) abandon() error {
	if ep.ptr == nil {
		return ep.segment.remove()
	}
	return ep.close()
}

func (ep *Endpoint) close() error {
	if err := cCloseEndpoint(ep.ptr); err != nil {
		return err
	}
	if ep.eq != nil {
		ep.eq.forget(ep.raw)
	}
	return errors.Join(ep.segment.remove(), closeHolds(ep.holds))
}

// Close closes the endpoint. Operations that have not completed may give no completion any more.
func (ep *Endpoint) Close() error { return ep.life.Close() }

// Info is what the endpoint was opened with.
func (ep *Endpoint) Info() *Info { return ep.info }

// Raw returns the struct fid_ep pointer, for calls that this package does not have.
func (ep *Endpoint) Raw() unsafe.Pointer { return ep.raw }

func (ep *Endpoint) lifetime() *life.Object { return &ep.life }

// Name is the endpoint's address, for the AVs of its peers.
//
// Implements:
//
//	int fi_getname(fid_t fid, void *addr, size_t *addrlen)
func (ep *Endpoint) Name() ([]byte, error) {
	if err := ep.life.Enter(); err != nil {
		return nil, err
	}
	defer ep.life.Exit()
	address, err := cName(ep.raw)
	return ep.domain.trim(address), err
}

// Cancel asks for operations with that ID to end; where one can, it completes with ECANCELED.
//
// Implements:
//
//	ssize_t fi_cancel(fid_t fid, void *context)
func (ep *Endpoint) Cancel(id uint64) error {
	if err := ep.life.Enter(); err != nil {
		return err
	}
	defer ep.life.Exit()
	return cCancel(ep.ptr, id)
}

// Alias makes another handle of the endpoint, whose operations have these flags where they are posted without: FlagSend or
// FlagRecv, for which of the two, and others. It is closed before the endpoint. Few providers have it.
//
// Implements:
//
//	int fi_ep_alias(struct fid_ep *ep, struct fid_ep **alias_ep, uint64_t flags)
//	int fi_alias(struct fid *fid, struct fid **alias_fid, uint64_t flags)
func (ep *Endpoint) Alias(flags Flags) (*Endpoint, error) {
	if err := ep.life.Enter(); err != nil {
		return nil, err
	}
	defer ep.life.Exit()
	ptr, err := cAlias(ep.ptr, uint64(flags))
	if err != nil {
		return nil, err
	}
	alias := &Endpoint{domain: ep.domain, info: ep.info, ptr: ptr, raw: cRawEndpoint(ptr), name: "alias of an " + ep.name}
	if err := alias.life.Init("alias", &ep.life, alias.close); err != nil {
		return nil, closeAfter(err, alias.close)
	}
	return alias, nil
}
