package fabric

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// Counter counts operations that completed, and those that failed.
type Counter struct {
	life   life.Object
	domain *Domain
	ptr    unsafe.Pointer // struct fid_cntr *
	wait   WaitObject
}

// CounterConfig says how to make a counter.
type CounterConfig struct {
	Wait WaitObject // WaitNone or WaitUnspec
}

// OpenCounter makes a counter, for [EndpointConfig].Events or [MR.BindCounter].
//
// Implements:
//
//	int fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context)
func (d *Domain) OpenCounter(cfg CounterConfig) (*Counter, error) {
	if err := d.life.Enter(); err != nil {
		return nil, err
	}
	defer d.life.Exit()
	if cfg.Wait != WaitNone && cfg.Wait != WaitUnspec {
		return nil, invalid("open counter: the wait object is %d, not WaitNone or WaitUnspec", cfg.Wait)
	}
	ptr, err := cOpenCounter(d.ptr, cfg.Wait)
	if err != nil {
		return nil, fmt.Errorf("open counter with %s: %w", d.told.Provider, err)
	}
	c := &Counter{domain: d, ptr: ptr, wait: cfg.Wait}
	if err := c.life.Init("counter", &d.life, c.close); err != nil {
		return nil, closeAfter(err, c.close)
	}
	return c, nil
}

func (c *Counter) close() error { return life.Refused(cCloseCounter(c.ptr)) }

// Close closes the counter. It is refused with EBUSY while an endpoint or a region is bound to it.
func (c *Counter) Close() error { return c.life.Close() }

// Raw returns the struct fid_cntr pointer, for calls that this package does not have.
func (c *Counter) Raw() unsafe.Pointer { return c.ptr }

func (c *Counter) lifetime() *life.Object { return &c.life }

// Read returns the count, and moves on a provider with ProgressManual.
//
// Implements:
//
//	uint64_t fi_cntr_read(struct fid_cntr *cntr)
func (c *Counter) Read() (uint64, error) { return c.read(cReadCounter) }

// ReadErrors returns how many operations failed.
//
// Implements:
//
//	uint64_t fi_cntr_readerr(struct fid_cntr *cntr)
func (c *Counter) ReadErrors() (uint64, error) { return c.read(cReadCounterErrors) }

func (c *Counter) read(call func(unsafe.Pointer) uint64) (uint64, error) {
	c.domain.use()
	if err := c.life.Enter(); err != nil {
		return 0, err
	}
	defer c.life.Exit()
	return call(c.ptr), nil
}

// Add adds to the count; where it shows may take a moment.
//
// Implements:
//
//	int fi_cntr_add(struct fid_cntr *cntr, uint64_t value)
func (c *Counter) Add(value uint64) error { return c.change(cAddCounter, value) }

// AddErrors adds to the count of failures.
//
// Implements:
//
//	int fi_cntr_adderr(struct fid_cntr *cntr, uint64_t value)
func (c *Counter) AddErrors(value uint64) error { return c.change(cAddCounterErrors, value) }

// Set sets the count.
//
// Implements:
//
//	int fi_cntr_set(struct fid_cntr *cntr, uint64_t value)
func (c *Counter) Set(value uint64) error { return c.change(cSetCounter, value) }

// SetErrors sets the count of failures.
//
// Implements:
//
//	int fi_cntr_seterr(struct fid_cntr *cntr, uint64_t value)
func (c *Counter) SetErrors(value uint64) error { return c.change(cSetCounterErrors, value) }

func (c *Counter) change(call func(unsafe.Pointer, uint64) error, value uint64) error {
	c.domain.use()
	if err := c.life.Enter(); err != nil {
		return err
	}
	defer c.life.Exit()
	return call(c.ptr, value)
}

// Wait blocks until the count is at least threshold, or ctx ends; its error is then ctx's. A failure of an operation that is
// counted ends it with an error that wraps EAvail. A counter without a wait object is read over and over.
//
// Implements:
//
//	int fi_cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
func (c *Counter) Wait(ctx context.Context, threshold uint64) error {
	for {
		done, err := c.reached(threshold)
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (c *Counter) reached(threshold uint64) (bool, error) {
	c.domain.use()
	if err := c.life.Enter(); err != nil {
		return false, err
	}
	defer c.life.Exit()
	if c.wait == WaitNone {
		return cReadCounter(c.ptr) >= threshold, nil
	}
	err := cWaitCounter(c.ptr, threshold, waitSlice)
	if errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EAGAIN) {
		return false, nil
	}
	return err == nil, err
}
