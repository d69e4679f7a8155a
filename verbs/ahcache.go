package verbs

import (
	"fmt"
	"net"
	"sync"
)

// AHCache keeps address handles, of which one takes a call into the kernel to make, and on RoCE the resolution of a MAC
// address. It forgets all of a port's when that port's addresses change, comes up or goes down; for a peer whose MAC
// address changes, which nothing here is told of, there is [AHCache.Forget].
//
// A handle that was forgotten stays open until the cache is closed, since sends that use it may be in flight.
type AHCache struct {
	pd      *PD
	watcher *watcher

	mu      sync.Mutex
	closed  bool
	open    map[AHConfig]*AH
	retired []*AH
}

// NewAHCache makes an empty cache of handles on the domain.
func (pd *PD) NewAHCache() (*AHCache, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	c := &AHCache{pd: pd, open: make(map[AHConfig]*AH)}
	c.watcher = &watcher{see: c.see}
	pd.ctx.events.watch(c.watcher)
	return c, nil
}

func (c *AHCache) see(e AsyncEvent) {
	switch e.Type {
	case EventPortActive, EventPortErr, EventGIDChange, EventLIDChange, EventClientReregister:
		c.forget(func(cfg AHConfig) bool { return cfg.Port == e.Port })
	}
}

// Get returns the handle for cfg, and makes it if it has none.
func (c *AHCache) Get(cfg AHConfig) (*AH, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("get address handle: the cache is closed: %w", net.ErrClosed)
	}
	if ah := c.open[cfg]; ah != nil {
		return ah, nil
	}
	ah, err := c.pd.CreateAH(cfg)
	if err != nil {
		return nil, err
	}
	c.open[cfg] = ah
	return ah, nil
}

// Forget has the next Get of a handle to the GID make a new one.
func (c *AHCache) Forget(remote GID) {
	c.forget(func(cfg AHConfig) bool { return cfg.RemoteGID == remote })
}

func (c *AHCache) forget(which func(AHConfig) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cfg, ah := range c.open {
		if which(cfg) {
			c.retired = append(c.retired, ah)
			delete(c.open, cfg)
		}
	}
}

// Len is how many handles the next Gets would find.
func (c *AHCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Close destroys all handles. No send that uses one may be in flight.
func (c *AHCache) Close() error {
	c.pd.ctx.events.unwatch(c.watcher)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for cfg, ah := range c.open {
		c.retired = append(c.retired, ah)
		delete(c.open, cfg)
	}
	for len(c.retired) > 0 {
		if err := c.retired[0].Close(); err != nil {
			return err
		}
		c.retired = c.retired[1:]
	}
	return nil
}
