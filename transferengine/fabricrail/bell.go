package fabricrail

import (
	"sync/atomic"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
)

// bell wakes a rail whose provider has nothing to sleep on, shm: a word beside the endpoint's memory, as the table of keys is,
// that every peer maps. The rail's sleeper says there that it sleeps, and looks once more; whoever posts to it then finds that, and
// wakes it (futex(2)). A nil bell is of a provider that needs none.
type bell struct {
	words *mem.Words
	path  string        // of one that this rail made
	fence atomic.Uint32 // of a peer's
}

// bellPath is where the bell of the endpoint of that name lies.
func bellPath(name string) (string, error) { return besideSegment(name, ":bell") }

func createBell(name string) (*bell, error) {
	path, err := bellPath(name)
	if err != nil {
		return nil, err
	}
	words, err := mem.CreateWords(path, 1)
	if err != nil {
		return nil, err
	}
	return &bell{words: words, path: path}, nil
}

// openBell opens a peer's. There is none once its endpoint is closed.
func openBell(name string) (*bell, error) {
	path, err := bellPath(name)
	if err != nil {
		return nil, err
	}
	words, err := mem.OpenSharedWords(path, 1)
	if err != nil {
		return nil, err
	}
	return &bell{words: words}, nil
}

func (b *bell) word() *atomic.Uint32 {
	if b == nil {
		return nil
	}
	return b.words.Half(0)
}

// ring wakes the peer, if it sleeps, after something was posted to it. What was posted must be seen there before the bell is
// looked at here, or both might miss each other until the sleeper's next look.
func (b *bell) ring() {
	if b == nil {
		return
	}
	b.fence.Add(1)
	if word := b.word(); word.Load() != 0 {
		fabric.Ring(word)
	}
}

func (b *bell) close() error {
	if b == nil {
		return nil
	}
	return closeWords(b.words, b.path)
}
