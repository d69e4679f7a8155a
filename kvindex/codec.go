package kvindex

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// The file format, all little-endian. Header, 32 bytes: magic, format version u32, bytes of a value u32, pairs u64,
// CRC-32C of the 24 bytes before u32, zero u32. Then blocks until all pairs are there: pairs in the block u32 (1 to
// codecBlock), CRC-32C of what follows u32, the keys, the values.
const (
	codecMagic   = "weftkvx\x00"
	codecVersion = 1
	codecHeader  = 32
	codecBlock   = 4096
)

// ErrCorrupt is wrapped by every error that ReadFrom gives for contents it cannot have written.
var ErrCorrupt = errors.New("corrupt kvindex file")

// WriteTo writes the map as of the call, in a checked format that ReadFrom reads on any machine. Values must be of fixed
// size as encoding/binary defines it; for others, write the pairs that a Snapshot yields. It implements io.WriterTo.
func (x *Index[V]) WriteTo(w io.Writer) (int64, error) {
	s := x.Snapshot()
	defer s.Close()
	size, err := valueSize[V]()
	if err != nil {
		return 0, fmt.Errorf("kvindex: write: %w", err)
	}
	out := &counted{w: bufio.NewWriter(w)}
	out.write(header(size, uint64(s.Len())))
	keys, values := make([]uint64, 0, codecBlock), make([]V, 0, codecBlock)
	for k, v := range s.All() {
		keys, values = append(keys, k), append(values, v)
		if len(keys) == codecBlock {
			out.write(block(keys, values))
			keys, values = keys[:0], values[:0]
		}
		if out.err != nil {
			break
		}
	}
	if len(keys) > 0 {
		out.write(block(keys, values))
	}
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return out.n, fmt.Errorf("kvindex: write: %w", out.err)
	}
	return out.n, nil
}

// counted writes until the first error.
type counted struct {
	w   *bufio.Writer
	n   int64
	err error
}

func (c *counted) write(p []byte) {
	if c.err == nil {
		var n int
		n, c.err = c.w.Write(p)
		c.n += int64(n)
	}
}

func valueSize[V any]() (int, error) {
	var v V
	size := binary.Size(v)
	if size < 0 {
		return 0, fmt.Errorf("values of type %T have no fixed size: write the pairs of a Snapshot yourself", v)
	}
	return size, nil
}

func castagnoli(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

func header(size int, pairs uint64) []byte {
	h := append(make([]byte, 0, codecHeader), codecMagic...)
	h = binary.LittleEndian.AppendUint32(h, codecVersion)
	h = binary.LittleEndian.AppendUint32(h, uint32(size))
	h = binary.LittleEndian.AppendUint64(h, pairs)
	h = binary.LittleEndian.AppendUint32(h, castagnoli(h))
	return binary.LittleEndian.AppendUint32(h, 0)
}

func block[V any](keys []uint64, values []V) []byte {
	b := make([]byte, 8, 8+len(keys)*16)
	for _, part := range []any{keys, values} {
		b, _ = binary.Append(b, binary.LittleEndian, part) // valueSize has seen that it cannot fail
	}
	binary.LittleEndian.PutUint32(b, uint32(len(keys)))
	binary.LittleEndian.PutUint32(b[4:], castagnoli(b[8:]))
	return b
}

// ReadFrom makes an index of what WriteTo wrote, and reads not a byte more. An error that wraps ErrCorrupt says what is
// wrong with the contents; no count in them is believed before as many bytes have come.
func ReadFrom[V any](r io.Reader, cfg Config) (*Index[V], error) {
	x, err := New[V](cfg)
	if err != nil {
		return nil, err
	}
	keys, values, err := readPairs[V](r)
	if err != nil {
		return nil, fmt.Errorf("kvindex: read: %w", err)
	}
	x.load([]run[V]{{keys: keys, values: values}})
	return x, nil
}

func readPairs[V any](r io.Reader) (keys []uint64, values []V, err error) {
	size, err := valueSize[V]()
	if err != nil {
		return nil, nil, err
	}
	pairs, err := readHeader(r, size)
	if err != nil {
		return nil, nil, err
	}
	for uint64(len(keys)) < pairs {
		n := len(keys)
		if keys, values, err = readBlock(r, size, keys, values); err != nil {
			return nil, nil, fmt.Errorf("block at pair %d: %w", n, err)
		}
		if uint64(len(keys)) > pairs {
			return nil, nil, fmt.Errorf("%w: %d pairs, the header says %d", ErrCorrupt, len(keys), pairs)
		}
	}
	return keys, values, nil
}

// readFull reads exactly len(p) bytes; an end before that is corruption.
func readFull(r io.Reader, p []byte) error {
	_, err := io.ReadFull(r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends early", ErrCorrupt)
	}
	return err
}

func readHeader(r io.Reader, size int) (pairs uint64, err error) {
	var h [codecHeader]byte
	if err := readFull(r, h[:]); err != nil {
		return 0, fmt.Errorf("header: %w", err)
	}
	version, valueBytes := binary.LittleEndian.Uint32(h[8:]), binary.LittleEndian.Uint32(h[12:])
	switch {
	case string(h[:8]) != codecMagic:
		return 0, fmt.Errorf("header: %w: it does not begin with %q", ErrCorrupt, codecMagic)
	case binary.LittleEndian.Uint32(h[24:]) != castagnoli(h[:24]) || binary.LittleEndian.Uint32(h[28:]) != 0:
		return 0, fmt.Errorf("header: %w: checksum", ErrCorrupt)
	case version != codecVersion:
		return 0, fmt.Errorf("header: format version %d, this program reads %d", version, codecVersion)
	case valueBytes != uint32(size):
		return 0, fmt.Errorf("header: values of %d bytes, asked for values of %d", valueBytes, size)
	}
	return binary.LittleEndian.Uint64(h[16:]), nil
}

func readBlock[V any](r io.Reader, size int, keys []uint64, values []V) ([]uint64, []V, error) {
	var h [8]byte
	if err := readFull(r, h[:]); err != nil {
		return nil, nil, err
	}
	n := int(binary.LittleEndian.Uint32(h[:]))
	if n < 1 || n > codecBlock {
		return nil, nil, fmt.Errorf("%w: %d pairs in a block, outside 1 to %d", ErrCorrupt, n, codecBlock)
	}
	body := make([]byte, n*(8+size))
	if err := readFull(r, body); err != nil {
		return nil, nil, err
	}
	if binary.LittleEndian.Uint32(h[4:]) != castagnoli(body) {
		return nil, nil, fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	from := len(keys)
	keys, values = slices.Grow(keys, n)[:from+n], slices.Grow(values, n)[:from+n]
	for i := range n {
		k := binary.LittleEndian.Uint64(body[8*i:])
		if from+i > 0 && k <= keys[from+i-1] {
			return nil, nil, fmt.Errorf("%w: key %d after %d", ErrCorrupt, k, keys[from+i-1])
		}
		keys[from+i] = k
	}
	_, err := binary.Decode(body[8*n:], binary.LittleEndian, values[from:])
	return keys, values, err
}

// ReadSOSD reads keys in the format of the SOSD benchmark (learnedsystems/SOSD): a little-endian uint64 count, then the
// keys as little-endian uint64, sorted; they may repeat. Reading goes on to the end of r, which must be the keys' end.
func ReadSOSD(r io.Reader) ([]uint64, error) {
	in := bufio.NewReader(r)
	var word [8]byte
	if err := readFull(in, word[:]); err != nil {
		return nil, fmt.Errorf("kvindex: read SOSD: count: %w", err)
	}
	count := binary.LittleEndian.Uint64(word[:])
	var keys []uint64 // grown as keys come: the count may lie
	for uint64(len(keys)) < count {
		if err := readFull(in, word[:]); err != nil {
			return nil, fmt.Errorf("kvindex: read SOSD: key %d of %d: %w", len(keys), count, err)
		}
		k := binary.LittleEndian.Uint64(word[:])
		if n := len(keys); n > 0 && k < keys[n-1] {
			return nil, fmt.Errorf("kvindex: read SOSD: key %d at %d comes after %d: sort the file", k, n, keys[n-1])
		}
		keys = append(keys, k)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("kvindex: read SOSD: more than the %d keys that the count says: %w", count, ErrCorrupt)
	}
	return keys, nil
}
