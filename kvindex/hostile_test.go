package kvindex

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostileArena is an arena of several levels, with writes in buffers, and what it holds. Its keys are below 200.
func hostileArena(t testing.TB) ([]uint64, map[uint64]uint64) {
	random := rand.New(rand.NewPCG(1, 2))
	memory := make([]uint64, 1<<12)
	a, err := NewArena(memory, Config{LeafEpsilon: 1, InnerEpsilon: 1, LeafCapacity: 4, NodeSegments: 2, BufferCapacity: 3})
	require.NoError(t, err)
	content := map[uint64]uint64{}
	put := func(k, v uint64) {
		content[k] = v
		_, _, err := a.Put(k, v)
		require.NoError(t, err)
	}
	for range 60 {
		put(random.Uint64N(200), random.Uint64())
	}
	require.NoError(t, a.Flush())
	for k := range uint64(200) {
		if _, ok := content[k]; !ok || k%3 > 0 {
			continue
		}
		if k%2 == 0 {
			put(k, k)
			continue
		}
		delete(content, k)
		_, _, err := a.Delete(k)
		require.NoError(t, err)
	}
	require.NoError(t, a.Verify())
	return memory, content
}

// rootOf, segmentAt and childAt say where blocks are, in words.
func rootOf(w []uint64) uint64                    { return w[superRoot] / 8 }
func segmentAt(w []uint64, node, i uint64) uint64 { return w[node+(1+i)*lineWords+4] / 8 }
func childAt(w []uint64, seg, i uint64) uint64 {
	return childSlot(8*seg, head(w[seg]).count(), int(i)) / 8
}

// leftmost is the first leaf.
func leftmost(w []uint64) uint64 {
	at := rootOf(w)
	for head(w[at]).kind() == kindInner {
		at = w[childAt(w, segmentAt(w, at, 0), 0)] / 8
	}
	return at
}

// reseal gives the blocks at these places the checks that an arena would have given them, generations and UIDs included.
func reseal(w []uint64, blocks ...uint64) {
	for _, at := range blocks {
		h := head(w[at])
		n := uint64(h.words())
		if n < 2*lineWords || at+n > uint64(len(w)) || h.kind() == kindBuffer && !h.possible() {
			continue
		}
		b := w[at:][:n]
		b[n-1] = h.generation()
		b[n-lineWords] = 0
		if h.kind() == kindBuffer {
			for i := range uint64(maxBuffer) {
				if kind := slots(b[bufferState]).kind(int(i)); kind != slotFree {
					b[bufferChecks+i] = slotCheck(b[bufferKeys+i], b[bufferValues+i], kind)
				}
			}
			continue
		}
		b[n-lineWords] = blockCheck(b)
	}
}

// allBlocks are the places of an arena's blocks, in words.
func allBlocks(t testing.TB, w []uint64) (at []uint64) {
	a, err := OpenArena(w)
	require.NoError(t, err)
	for i := 1; i < len(w)/lineWords; i++ {
		from := i * lineWords
		free := slices.ContainsFunc(a.memory.free, func(f extent) bool { return from >= f.from && from < f.from+f.words })
		if h := head(w[from]); !free && h.possible() && w[from+h.words()-1] == h.generation() {
			at = append(at, uint64(from))
		}
	}
	return at
}

// meter is memory that gives only so many reads.
type meter struct {
	Memory
	left int
}

var errSteps = errors.New("more reads than a bounded lookup makes")

func (m *meter) step() error {
	if m.left--; m.left < 0 {
		return errSteps
	}
	return nil
}

func (m *meter) Load64(offset uint64) (uint64, error) {
	if err := m.step(); err != nil {
		return 0, err
	}
	return m.Memory.Load64(offset)
}

func (m *meter) LoadLine(offset uint64, line *[lineWords]uint64) error {
	if err := m.step(); err != nil {
		return err
	}
	return m.Memory.LoadLine(offset, line)
}

// mostReads is what Lookup promises.
const mostReads = 2048

// lookUp is Lookup within its promise.
func lookUp(t testing.TB, memory []uint64, k uint64) (uint64, bool, error) {
	v, ok, err := Lookup(&meter{words(memory), mostReads}, k)
	require.NotErrorIs(t, err, errSteps, "key %d", k)
	return v, ok, err
}

// scanOf is a Reader's scan. It ends: each step goes on to a key that the memory names.
func scanOf(t testing.TB, a *Arena) (keys, values []uint64) {
	r := a.Reader()
	defer r.Close()
	m := &meter{r.walk.memory, len(a.words) * mostReads}
	r.walk.memory = m
	for k, v := range r.All() {
		keys, values = append(keys, k), append(values, v)
	}
	require.GreaterOrEqual(t, m.left, 0, "a scan goes round in circles")
	return keys, values
}

// readHostile reads through an arena whose memory holds anything: all that matters is that it ends.
func readHostile(t testing.TB, a *Arena, probes []uint64) {
	scanOf(t, a)
	r := a.Reader()
	defer r.Close()
	for _, k := range probes {
		m := &meter{words(a.words), mostReads}
		r.walk.memory = m
		_, _, err := r.Get(k)
		require.NotErrorIs(t, err, errSteps)
		r.walk.memory = words(a.words)
		for range r.Range(k, k+3) {
		}
		lookUp(t, a.words, k)
	}
}

// requireRight asks an arena that was opened from memory somebody else wrote, and so calls it right, for everything that it
// can be asked, and writes to it: all answers must be those of one sorted map.
func requireRight(t testing.TB, a *Arena, probes []uint64, random *rand.Rand) {
	require.NoError(t, a.Verify())
	keys, values := scanOf(t, a)
	content := map[uint64]uint64{}
	for i, k := range keys {
		require.True(t, i == 0 || keys[i-1] < k, "a scan gives %d after %d", k, keys[max(i-1, 0)])
		content[k] = values[i]
		probes = append(probes, k-1, k, k+1)
	}
	check := func() {
		r := a.Reader()
		defer r.Close()
		for _, k := range probes {
			want, exists := content[k]
			v, ok, err := r.Get(k)
			require.True(t, err == nil && ok == exists && v == want, "Get %d: %d, %v, %v, want %d, %v", k, v, ok, err, want, exists)
			v, ok, err = lookUp(t, a.words, k)
			require.True(t, err == nil && ok == exists && v == want, "Lookup %d: %d, %v, %v, want %d, %v", k, v, ok, err, want, exists)
			v, ok = a.value(locate(a.root.Load(), k, nil).leaf, k)
			require.True(t, ok == exists && v == want, "locked lookup of %d: %d, %v, want %d, %v", k, v, ok, want, exists)
		}
		got, _ := scanOf(t, a)
		require.Len(t, got, len(content))
	}
	check()
	for range 40 {
		k, v := probes[random.IntN(len(probes))], random.Uint64()
		want, exists := content[k]
		var old uint64
		var was bool
		var err error
		if random.IntN(2) == 0 {
			old, was, err = a.Put(k, v)
		} else if old, was, err = a.Delete(k); err == nil {
			delete(content, k)
			require.True(t, was == exists && old == want, "delete of %d", k)
			continue
		}
		if err != nil {
			break // its memory is full, or its UIDs are
		}
		content[k] = v
		require.True(t, was == exists && old == want, "put of %d", k)
	}
	require.NoError(t, a.Verify())
	check()
}

// hostileProbes are keys around those of hostileArena, and the ends of the range.
func hostileProbes() []uint64 {
	probes := []uint64{math.MaxUint64 - 1, math.MaxUint64}
	for k := range uint64(202) {
		probes = append(probes, k)
	}
	return probes
}

// TestHostileArena has memory that somebody wrote with all checks right and one thing in it that no arena writes. None of it
// may be opened, and every lookup in it ends.
func TestHostileArena(t *testing.T) {
	for name, spoil := range map[string]func(w []uint64){
		"made for no bytes":        func(w []uint64) { w[superSize] = 0 },
		"made for half a word":     func(w []uint64) { w[superSize]-- },
		"made for more":            func(w []uint64) { w[superSize] = math.MaxUint64 },
		"root at the superblock":   func(w []uint64) { w[superRoot] = 0 },
		"root beyond the memory":   func(w []uint64) { w[superRoot] = math.MaxUint64 &^ 63 },
		"root not on a line":       func(w []uint64) { w[superRoot] += 8 },
		"no configuration":         func(w []uint64) { w[superConfig] = 0 },
		"UIDs that were not given": func(w []uint64) { w[superUID] = 1 },
		"200 segments": func(w []uint64) {
			at := rootOf(w)
			w[at] = w[at]&^0xff00 | 200<<8
			reseal(w, at)
		},
		"no segments": func(w []uint64) {
			at := rootOf(w)
			w[at] &^= 0xff00
			reseal(w, at)
		},
		"a segment of 200 children": func(w []uint64) {
			at := segmentAt(w, rootOf(w), 0)
			words := uint64(blockWords(kindSegment, 200))
			w[at] = w[at]&^0xffffff00 | 200<<8 | words/lineWords<<16
			reseal(w, at)
		},
		"a node below itself": func(w []uint64) {
			w[childAt(w, segmentAt(w, rootOf(w), 0), 0)] = w[superRoot]
		},
		"a leaf twice": func(w []uint64) {
			at := slices.IndexFunc(w, func(h uint64) bool { // any segment with two children
				return head(h).kind() == kindSegment && head(h).count() > 1 && head(h).possible()
			})
			w[childAt(w, uint64(at), 1)] = w[childAt(w, uint64(at), 0)]
		},
		"pivots that fall": func(w []uint64) {
			node := rootOf(w)
			at := segmentAt(w, node, 0)
			slices.Reverse(w[at+lineWords:][:head(w[at]).count()])
			reseal(w, at)
		},
		"a window beyond its leaf": func(w []uint64) {
			at := leftmost(w)
			w[at+4] = 0xffff<<16 | 0xffff
			reseal(w, at)
		},
		"a window of nothing": func(w []uint64) {
			at := leftmost(w)
			w[at+4] = w[at+4]&^0xffffffff | uint64(head(w[at]).count())
			reseal(w, at)
		},
		"keys that fall": func(w []uint64) {
			at := leftmost(w)
			slices.Reverse(w[at+lineWords:][:head(w[at]).count()])
			reseal(w, at)
		},
		"a buffer that is a leaf": func(w []uint64) {
			at := leftmost(w)
			w[at+leafBuffer] = 8 * at
			reseal(w, at)
		},
		"a thousand nodes below each other": func(w []uint64) { nest(w, 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := hostileArena(t)
			w = append(w, make([]uint64, 1<<16)...)
			w[superSize] = uint64(8 * len(w))
			a, err := OpenArena(slices.Clone(w))
			require.NoError(t, err)
			spoil(w)
			ends(t, name, func() {
				_, err := OpenArena(w)
				require.Error(t, err)
				t.Log(err)
				copy(a.words, w) // as if somebody wrote to it after it was opened
				require.Error(t, a.Verify())
				readHostile(t, a, hostileProbes())
			})
		})
	}
}

// nest puts nodes of one child each above the root.
func nest(w []uint64, levels uint64) {
	at := uint64(len(w)) - levels*(3+4)*lineWords - 4*lineWords // before the spare place
	for range levels {
		seg := at + 3*lineWords
		for i, block := range [][2]uint64{{at, kindInner}, {seg, kindSegment}} {
			w[superUID]++
			kind := int(block[1])
			w[block[0]], w[block[0]+wordUID] = uint64(newHead(kind, 1, blockWords(kind, 1), uint32(w[superUID]))), w[superUID]
			if i == 0 {
				for j := range uint64(6) {
					w[at+2+j] = math.MaxUint64
				}
				one := plainModel(1)
				putModel(w[at+lineWords:], &one)
				w[at+lineWords+4] = 8 * seg
			} else {
				w[childAt(w, seg, 0)] = w[superRoot]
			}
			reseal(w, block[0])
		}
		w[superRoot] = 8 * at
		at += (3 + 4) * lineWords
	}
}

// TestArenaOutOfUIDs opens an arena that says it gave nearly all UIDs.
func TestArenaOutOfUIDs(t *testing.T) {
	w, content := hostileArena(t)
	w[superUID] = math.MaxUint64 - 3
	a, err := OpenArena(w)
	require.NoError(t, err)
	for k := uint64(200); err == nil; k++ {
		require.Less(t, k, uint64(300))
		if _, _, err = a.Put(k, k); err == nil {
			content[k] = k
		}
	}
	require.ErrorContains(t, err, "UIDs")
	require.NoError(t, a.Verify())
	keys, _ := scanOf(t, a)
	require.Len(t, keys, len(content))
}

// edit changes words of a memory as a script of 4 bytes a change says: which word, how, and a number for that.
func edit(w []uint64, script []byte) {
	for ; len(script) >= 4; script = script[4:] {
		at, n := int(binary.LittleEndian.Uint16(script))%len(w), uint64(script[3])
		switch script[2] % 8 {
		case 0:
			w[at] ^= 1 << (n % 64)
		case 1:
			w[at] = n
		case 2:
			w[at] = w[n*uint64(len(w))/256]
		case 3:
			w[at] = n * lineBytes
		case 4:
			w[at] = math.MaxUint64 - n
		case 5:
			w[at] += n
		case 6:
			w[at] -= n
		case 7:
			w[at] = w[at]&^(0xff<<(n%8*8)) | n<<(n%8*8)
		}
	}
}

// FuzzHostileArena changes words of an arena's memory, and gives the changed blocks right checks or leaves them wrong. The
// memory is opened: what OpenArena takes gives right answers. And it is put under an arena that was opened before:
// reading it ends.
func FuzzHostileArena(f *testing.F) {
	pristine, _ := hostileArena(f)
	blocks := allBlocks(f, pristine)
	f.Add([]byte{}, true, uint64(1))
	for i, at := range blocks { // a header, a middle word, and the last line of some of each kind
		script := []byte{byte(at), byte(at >> 8), byte(i), byte(7 * i), byte(at + 9), byte((at + 9) >> 8), byte(i / 3), 9}
		f.Add(script, i%4 > 0, uint64(i))
	}
	probes := hostileProbes()
	f.Fuzz(func(t *testing.T, script []byte, seal bool, seed uint64) {
		w := slices.Clone(pristine)
		before, err := OpenArena(slices.Clone(pristine))
		require.NoError(t, err)
		edit(w, script)
		if seal {
			reseal(w, blocks...)
		}
		ends(t, "an arena of garbled memory", func() {
			copy(before.words, w)
			verified := before.Verify()
			readHostile(t, before, probes)
			a, err := OpenArena(w)
			if err != nil {
				require.Error(t, verified)
				return
			}
			requireRight(t, a, probes, rand.New(rand.NewPCG(seed, 0)))
		})
	})
}
