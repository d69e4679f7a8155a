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
// A handle that was forgotten stays open while sends that use it may be in flight: until it was put back as often as it was got,
// or the cache is closed.
type AHCache struct {
	pd      *PD
	watcher *watcher

	mu      sync.Mutex
	closed  bool
	open    map[AHConfig]*AH // what Get finds
	holders map[*AH]int      // of these and of the retired, which have some or could not be destroyed
	retired map[*AH]struct{}
}

// NewAHCache makes an empty cache of handles on the domain.
func (pd *PD) NewAHCache() (*AHCache, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	c := &AHCache{pd: pd, open: make(map[AHConfig]*AH), holders: make(map[*AH]int), retired: make(map[*AH]struct{})}
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

// Get returns the handle for cfg, and makes it if it has none. The caller puts it back with [AHCache.Put].
func (c *AHCache) Get(cfg AHConfig) (*AH, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("get address handle: the cache is closed: %w", net.ErrClosed)
	}
	if ah := c.open[cfg]; ah != nil {
		c.holders[ah]++
		return ah, nil
	}
	ah, err := c.pd.CreateAH(cfg)
	if err != nil {
		return nil, err
	}
	c.open[cfg] = ah
	c.holders[ah] = 1
	return ah, nil
}

// Put gives a handle of Get back: the sends that its caller posted with it have completed. A handle that the cache has forgotten
// is destroyed with the last of them.
func (c *AHCache) Put(ah *AH) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders[ah] == 0 { // not of this cache, or it is closed
		return
	}
	c.holders[ah]--
	if _, retired := c.retired[ah]; retired {
		c.discard(ah)
	}
}

// discard destroys a retired handle that nobody holds; one whose device refuses stays until Close.
func (c *AHCache) discard(ah *AH) {
	if c.holders[ah] == 0 && ah.Close() == nil {
		delete(c.retired, ah)
		delete(c.holders, ah)
	}
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
			c.retired[ah] = struct{}{}
			delete(c.open, cfg)
			c.discard(ah)
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
	clear(c.open)
	for ah := range c.holders {
		if err := ah.Close(); err != nil {
			return err
		}
		delete(c.holders, ah)
		delete(c.retired, ah)
	}
	return nil
}
