package fabric

import (
	"fmt"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// ScalableEndpoint is one address with several transmit and receive contexts, each of which is used like an endpoint of one
// direction. Few providers have it; its info was asked for with TxContexts and RxContexts.
type ScalableEndpoint struct {
	life   life.Object
	domain *Domain
	info   *Info
	told   *Info          // the same, as libfabric has it
	ptr    unsafe.Pointer // struct weft_fi_ep *
	raw    unsafe.Pointer // struct fid_ep *
}

// OpenScalable opens a scalable endpoint on an address vector. Its contexts are opened next, then it is enabled.
//
// Implements:
//
//	int fi_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context)
//	int fi_scalable_ep_bind(struct fid_ep *sep, struct fid *bfid, uint64_t flags)
func (d *Domain) OpenScalable(info *Info, av *AV) (*ScalableEndpoint, error) {
	if err := d.life.Enter(); err != nil {
		return nil, err
	}
	defer d.life.Exit()
	told, err := d.check(info)
	switch {
	case err != nil:
		return nil, invalid("open scalable endpoint: %w", err)
	case av == nil:
		return nil, invalid("open scalable endpoint: it needs an AV")
	}
	if err := d.owns("AV", av.domain); err != nil {
		return nil, invalid("open scalable endpoint: %w", err)
	}
	exit, err := enter(&av.life)
	if err != nil {
		return nil, err
	}
	defer exit()
	s := &ScalableEndpoint{domain: d, info: info, told: told}
	if s.ptr, err = cOpenScalable(d.ptr, info); err != nil {
		return nil, fmt.Errorf("open scalable endpoint of %s: %w", told.Provider, err)
	}
	s.raw = cRawEndpoint(s.ptr)
	if err = cBindScalableAV(s.ptr, av.ptr); err == nil {
		err = s.life.Init("scalable endpoint", &d.life, s.close, &av.life)
	}
	if err != nil {
		return nil, fmt.Errorf("open scalable endpoint of %s: %w", told.Provider, closeAfter(err, s.close))
	}
	return s, nil
}

func (s *ScalableEndpoint) close() error { return life.Refused(cCloseEndpoint(s.ptr)) }

// Close closes the scalable endpoint. It is refused with EBUSY while a context is open on it.
func (s *ScalableEndpoint) Close() error { return s.life.Close() }

// Raw returns the struct fid_ep pointer, for calls that this package does not have.
func (s *ScalableEndpoint) Raw() unsafe.Pointer { return s.raw }

func (s *ScalableEndpoint) lifetime() *life.Object { return &s.life }

// Enable enables the scalable endpoint itself.
func (s *ScalableEndpoint) Enable() error {
	if err := s.life.Enter(); err != nil {
		return err
	}
	defer s.life.Exit()
	return cEnable(s.ptr)
}

// Name is the address of the endpoint; that of one receive context follows from it by [RxAddr].
func (s *ScalableEndpoint) Name() ([]byte, error) {
	if err := s.life.Enter(); err != nil {
		return nil, err
	}
	defer s.life.Exit()
	return cName(s.raw)
}

// Tx opens a transmit context, whose completions go to cq, and enables it.
//
// Implements:
//
//	int fi_tx_context(struct fid_ep *ep, int idx, struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context)
func (s *ScalableEndpoint) Tx(index int, cq *CQ) (*Endpoint, error) {
	return s.context(false, index, s.told.MaxTxContexts, cq)
}

// Rx opens a receive context, whose completions go to cq, and enables it.
//
// Implements:
//
//	int fi_rx_context(struct fid_ep *ep, int idx, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context)
func (s *ScalableEndpoint) Rx(index int, cq *CQ) (*Endpoint, error) {
	return s.context(true, index, s.told.MaxRxContexts, cq)
}

func (s *ScalableEndpoint) context(receive bool, index int, limit uint64, cq *CQ) (*Endpoint, error) {
	if err := s.life.Enter(); err != nil {
		return nil, err
	}
	defer s.life.Exit()
	if index < 0 || uint64(index) >= limit || cq == nil {
		return nil, invalid("open context %d of %d: it needs an index below that, and a completion queue", index, limit)
	}
	if err := s.domain.owns("CQ", cq.domain); err != nil {
		return nil, invalid("open context: %w", err)
	}
	exit, err := enter(&cq.life)
	if err != nil {
		return nil, err
	}
	defer exit()
	ptr, err := cOpenContext(s.ptr, receive, index)
	if err != nil {
		return nil, err
	}
	flags := uint64(CapSend)
	if receive {
		flags = uint64(CapRecv)
	}
	ep := &Endpoint{domain: s.domain, info: s.info, told: s.told, cqs: [2]*CQ{cq}, ptr: ptr, raw: cRawEndpoint(ptr),
		name: fmt.Sprintf("context %d of a scalable endpoint of %s", index, s.told.Provider)}
	if err = cBindCQ(ptr, cq.ptr, flags); err == nil {
		err = cEnable(ptr)
	}
	if err == nil {
		err = ep.life.Init("context", &s.life, ep.close, &cq.life)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", ep.name, closeAfter(err, ep.close))
	}
	return ep, nil
}

// SharedTx is a transmit context that several endpoints share (struct fid_stx).
type SharedTx struct {
	life   life.Object
	domain *Domain
	ptr    unsafe.Pointer // struct fid_stx *
}

// OpenSharedTx makes a transmit context, for [EndpointConfig].
//
// Implements:
//
//	int fi_stx_context(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
func (d *Domain) OpenSharedTx(info *Info) (*SharedTx, error) {
	if err := d.life.Enter(); err != nil {
		return nil, err
	}
	defer d.life.Exit()
	told, err := d.check(info)
	if err != nil {
		return nil, invalid("open shared transmit context: %w", err)
	}
	ptr, err := cOpenSharedTx(d.ptr, info)
	if err != nil {
		return nil, fmt.Errorf("open shared transmit context of %s: %w", told.Provider, err)
	}
	s := &SharedTx{domain: d, ptr: ptr}
	if err := s.life.Init("shared transmit context", &d.life, s.close); err != nil {
		return nil, closeAfter(err, s.close)
	}
	return s, nil
}

func (s *SharedTx) close() error { return life.Refused(cCloseSharedTx(s.ptr)) }

// Close closes the context. It is refused with EBUSY while an endpoint is open on it.
func (s *SharedTx) Close() error { return s.life.Close() }

// Raw returns the struct fid_stx pointer, for calls that this package does not have.
func (s *SharedTx) Raw() unsafe.Pointer { return s.ptr }

func (s *SharedTx) lifetime() *life.Object { return &s.life }

// OpenSharedRx makes a receive context that several endpoints share, for [EndpointConfig]: receives are posted to it, and
// their completions go to the queue of the endpoint that took them. They are from anyone (AddrUnspec), unless its endpoints are
// connected: whose address vector a peer would be of is not known here.
//
// Implements:
//
//	int fi_srx_context(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context)
func (d *Domain) OpenSharedRx(info *Info) (*Endpoint, error) {
	if err := d.life.Enter(); err != nil {
		return nil, err
	}
	defer d.life.Exit()
	told, err := d.check(info)
	if err != nil {
		return nil, invalid("open shared receive context: %w", err)
	}
	ptr, err := cOpenSharedRx(d.ptr, info)
	if err != nil {
		return nil, fmt.Errorf("open shared receive context of %s: %w", told.Provider, err)
	}
	ep := &Endpoint{domain: d, info: info, told: told, ptr: ptr, raw: cRawEndpoint(ptr), shared: true,
		name: "shared receive context of " + told.Provider}
	if err := ep.life.Init("shared receive context", &d.life, ep.close); err != nil {
		return nil, closeAfter(err, ep.close)
	}
	return ep, nil
}
