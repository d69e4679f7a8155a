package fabric

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/solo"
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

// validate checks what an endpoint of the domain is to work with; info is libfabric's.
func (cfg *EndpointConfig) validate(d *Domain, info *Info) error {
	switch {
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
		return invalid("open endpoint: MinMultiRecv %d is negative", cfg.MinMultiRecv)
	}
	for i, e := range cfg.Events {
		if e.Counter == nil || e.Events == 0 {
			return invalid("open endpoint: Events %d names no counter or nothing to count", i)
		}
	}
	return cfg.owned(d)
}

// owned returns an error for an object of another domain or, for an event queue, of another fabric.
func (cfg *EndpointConfig) owned(d *Domain) error {
	var errs []error
	check := func(name string, of *Domain) { errs = append(errs, d.owns(name, of)) }
	if cfg.AV != nil {
		check("AV", cfg.AV.domain)
	}
	if cfg.TxCQ != nil {
		check("TxCQ", cfg.TxCQ.domain)
	}
	if cfg.RxCQ != nil {
		check("RxCQ", cfg.RxCQ.domain)
	}
	if cfg.SharedTx != nil {
		check("SharedTx", cfg.SharedTx.domain)
	}
	if cfg.SharedRx != nil {
		check("SharedRx", cfg.SharedRx.domain)
		if !cfg.SharedRx.shared {
			errs = append(errs, fmt.Errorf("SharedRx is a %s, and none of OpenSharedRx", cfg.SharedRx.name))
		}
	}
	for i, e := range cfg.Events {
		check(fmt.Sprintf("the counter of Events %d", i), e.Counter.domain)
	}
	if cfg.EQ != nil {
		errs = append(errs, d.fabric.owns("EQ", cfg.EQ.fabric))
	}
	if err := errors.Join(errs...); err != nil {
		return invalid("open endpoint: %w", err)
	}
	return nil
}

// parents are the objects that the endpoint works with, which cannot be closed before it.
func (cfg *EndpointConfig) parents() (parents []*life.Object) {
	if cfg.AV != nil {
		parents = append(parents, &cfg.AV.life)
	}
	if cfg.EQ != nil {
		parents = append(parents, &cfg.EQ.life)
	}
	if cfg.SharedTx != nil {
		parents = append(parents, &cfg.SharedTx.life)
	}
	if cfg.SharedRx != nil {
		parents = append(parents, &cfg.SharedRx.life)
	}
	if cfg.TxCQ != nil {
		parents = append(parents, &cfg.TxCQ.life)
	}
	if cfg.RxCQ != nil {
		parents = append(parents, &cfg.RxCQ.life)
	}
	for _, e := range cfg.Events {
		parents = append(parents, &e.Counter.life)
	}
	return parents
}

// Endpoint is what operations are posted to (struct fid_ep).
type Endpoint struct {
	life   life.Object
	domain *Domain
	info   *Info
	told   *Info          // the same, as libfabric has it
	ptr    unsafe.Pointer // struct weft_fi_ep *
	raw    unsafe.Pointer // struct fid_ep *
	name   string         // in errors
	eq     *EQ
	cqs    [2]*CQ // of what it sends, and receives
	shared bool   // it is of OpenSharedRx

	segment *segment   // of shm; nil otherwise
	mu      sync.Mutex // guards options, which are not to be set concurrently
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
	told, err := d.check(info)
	if err != nil {
		return nil, invalid("open endpoint: %w", err)
	}
	if err := cfg.validate(d, told); err != nil {
		return nil, err
	}
	parents := cfg.parents()
	exit, err := enter(parents...)
	if err != nil {
		return nil, fmt.Errorf("open endpoint: %w", err)
	}
	defer exit()
	if err := info.answer(); err != nil {
		return nil, invalid("open endpoint: %w", err)
	}
	ep := &Endpoint{domain: d, info: info, told: told, name: fmt.Sprintf("%v endpoint of %s", told.Type, told.Provider), eq: cfg.EQ,
		cqs: [2]*CQ{cfg.TxCQ, cfg.RxCQ}}
	if err = ep.open(cfg); err == nil {
		err = ep.life.Init("endpoint", &d.life, ep.close, parents...)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", ep.name, closeAfter(d.explain(err, 0), ep.abandon))
	}
	return ep, nil
}

func (ep *Endpoint) open(cfg EndpointConfig) error {
	name := ""
	if ep.told.Provider == "shm" && !ep.info.named {
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

// use is that of the endpoint's domain.
func (ep *Endpoint) use() {
	if solo.Enabled {
		ep.domain.use(ep.cqs[:]...)
	}
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

// bind gives the endpoint what it works with.
func (ep *Endpoint) bind(cfg EndpointConfig) (err error) {
	if cfg.AV != nil {
		err = cBindAV(ep.ptr, cfg.AV.ptr)
	}
	if err == nil && cfg.EQ != nil {
		cfg.EQ.know(ep.raw, ep)
		err = cBindEQ(ep.ptr, cfg.EQ.ptr)
	}
	if err == nil && cfg.SharedTx != nil {
		err = cBindSharedTx(ep.ptr, cfg.SharedTx.ptr)
	}
	if err == nil && cfg.SharedRx != nil {
		err = cBindSharedRx(ep.ptr, cfg.SharedRx.ptr)
	}
	if err == nil {
		err = ep.bindCQs(cfg)
	}
	for i := 0; i < len(cfg.Events) && err == nil; i++ {
		err = cBindCounter(ep.ptr, cfg.Events[i].Counter.ptr, uint64(cfg.Events[i].Events))
	}
	return err
}

// flagSelective is FI_SELECTIVE_COMPLETION.
const flagSelective = 1 << 59

// bindCQs binds the completion queues: once where both directions share one and its flags.
func (ep *Endpoint) bindCQs(cfg EndpointConfig) (err error) {
	tx, rx := uint64(CapSend), uint64(CapRecv)
	if cfg.SelectiveTx {
		tx |= flagSelective
	}
	if cfg.SelectiveRx {
		rx |= flagSelective
	}
	if cfg.TxCQ != nil && cfg.TxCQ == cfg.RxCQ && cfg.SelectiveTx == cfg.SelectiveRx {
		return cBindCQ(ep.ptr, cfg.TxCQ.ptr, tx|rx)
	}
	if cfg.TxCQ != nil {
		err = cBindCQ(ep.ptr, cfg.TxCQ.ptr, tx)
	}
	if cfg.RxCQ != nil && err == nil {
		err = cBindCQ(ep.ptr, cfg.RxCQ.ptr, rx)
	}
	return err
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
		return life.Refused(err)
	}
	if ep.eq != nil {
		ep.eq.forget(ep.raw, ep)
	}
	return ep.segment.remove() // the endpoint is gone, whatever comes of this
}

// Close closes the endpoint. Operations that have not completed may give no completion any more. An error about a file of an
// endpoint of shm, which this process may not remove any more, comes with the endpoint closed: whoever opens one next and may,
// removes it.
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
	ep.use()
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
	alias := &Endpoint{domain: ep.domain, info: ep.info, told: ep.told, cqs: ep.cqs, ptr: ptr, raw: cRawEndpoint(ptr), name: "alias of an " + ep.name}
	if err := alias.life.Init("alias", &ep.life, alias.close); err != nil {
		return nil, closeAfter(err, alias.close)
	}
	return alias, nil
}
