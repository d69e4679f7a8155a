package railtest

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
)

// refused posts an operation that the peer's NIC has to refuse. The connection may end by it, and another one can be made.
func (w *world) refused(a, b *node, o func(atA rail.PeerID) rail.Op) {
	w.Helper()
	atA, _ := w.connect(a, b)
	bad := o(atA)
	before := bytes.Clone(b.memory)
	own := bytes.Clone(a.memory)
	require.ErrorIs(w, a.do(atA, bad, b), rail.ErrAccess)
	w.pass(20*time.Millisecond, a, b)
	w.requireBytes(before, b.memory, "something landed")
	w.requireBytes(own, a.memory, "something was read")
	require.Zero(w, len(b.immediates), "immediates")
	if down, is := a.downs[atA]; is {
		require.ErrorIs(w, down.Err, rail.ErrAccess)
	} else {
		a.rail.Disconnect(w.now(), atA)
	}
	w.until("down at both ends", func() bool {
		return a.isDown(atA) && len(b.downs) == len(b.ups)
	}, a, b)
	atA, _ = w.connect(a, b)
	require.NoError(w, a.do(atA, a.op(rail.Write, 0, b.remote(), 0, 8), b))
	a.rail.Disconnect(w.now(), atA)
	w.until("down at both ends", func() bool { return a.isDown(atA) && len(b.downs) == len(b.ups) }, a, b)
}

func wrongKeys(w *world) {
	a, b := w.open(), w.open()
	w.fill(a.memory)
	w.refused(a, b, func(rail.PeerID) rail.Op {
		o := withImm(a.op(rail.Write, 0, b.remote(), 0, 1000), 1)
		o.RemoteKey ^= 0x5500
		return o
	})
	for _, kind := range a.writesAndReads() {
		w.refused(a, b, func(rail.PeerID) rail.Op {
			o := a.op(kind, 0, b.remote(), 0, 1)
			o.RemoteKey ^= 0x5500
			return o
		})
	}
}

// writesAndReads are the kinds of operations that the rail has, without atomic ones.
func (n *node) writesAndReads() []rail.OpKind {
	if n.caps.Read {
		return []rail.OpKind{rail.Write, rail.Read}
	}
	return []rail.OpKind{rail.Write}
}

func outOfBounds(w *world) {
	a, b := w.open(), w.open()
	w.fill(a.memory)
	for _, at := range []int{-1, memorySize - 7, memorySize, memorySize + 1<<30} {
		w.refused(a, b, func(rail.PeerID) rail.Op { return withImm(a.op(rail.Write, 0, b.remote(), at, 8), 1) })
		if a.caps.Read {
			w.refused(a, b, func(rail.PeerID) rail.Op { return a.op(rail.Read, 0, b.remote(), at, 8) })
		}
	}
}

func noRight(w *world) {
	a, b := w.open(), w.open()
	w.fill(a.memory)
	for _, kind := range a.writesAndReads() {
		access := map[rail.OpKind]rail.Access{rail.Write: rail.RemoteRead, rail.Read: rail.RemoteWrite}[kind]
		w.refused(a, b, func(rail.PeerID) rail.Op {
			keys, err := b.rail.Register(b.memory, access)
			require.NoError(w, err)
			w.Cleanup(func() { require.NoError(w, keys.Close()) })
			return a.op(kind, 0, remoteOf(keys), 0, 8)
		})
	}
}

// registeredBeside has goroutines register memory, and take it back, while the rail takes turns with traffic.
func registeredBeside(w *world) {
	a, b, atA, _ := w.pair()
	const goroutines, rounds = 4, 20
	memories, kept := make([][]byte, goroutines), make([]rail.Registration, goroutines)
	var wait sync.WaitGroup
	for i := range goroutines {
		memories[i] = pages(os.Getpagesize())
		wait.Go(func() {
			for range rounds {
				keys, err := b.rail.Register(memories[i], everything)
				if kept[i] != nil {
					err = errors.Join(err, kept[i].Close())
				}
				if kept[i] = keys; err != nil {
					w.Error(err)
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { wait.Wait(); close(ended) }()
	for busy := true; busy; {
		select {
		case <-ended:
			busy = false
		default:
			require.NoError(w, a.do(atA, withImm(a.op(rail.Write, 0, b.remote(), 0, 8), 1), b))
		}
	}
	for i, keys := range kept {
		w.fill(a.memory[:8])
		o := a.op(rail.Write, 0, remoteOf(keys), 0, 8)
		require.NoError(w, a.do(atA, o, b), "to what goroutine %d registered", i)
		w.requireBytes(a.memory[:8], memories[i][:8], "what goroutine %d registered", i)
		require.NoError(w, keys.Close())
	}
}

func deregistered(w *world) {
	a, b := w.open(), w.open()
	w.fill(a.memory)
	w.refused(a, b, func(atA rail.PeerID) rail.Op {
		keys, err := b.rail.Register(b.memory, rail.RemoteWrite)
		require.NoError(w, err)
		o := a.op(rail.Write, 0, remoteOf(keys), 0, 8)
		require.NoError(w, a.do(atA, o, b), "while it is registered")
		clear(b.memory)
		require.NoError(w, keys.Close())
		o.Token = a.op(rail.Write, 0, b.remote(), 0, 8).Token
		return o
	})
}
