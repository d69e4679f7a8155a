package fabric_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
)

// playWriter does what csrc/test/fabric_loop.c does, by this binding: it tells its address and memory, learns its target's,
// and prints the nanoseconds that each of n writes with data took. scripts/bench-fabric.sh runs both.
func playWriter(args []string) int {
	ns, err := writer(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("%.1f\n", ns)
	return 0
}

// writeLoop is what writes go from and to.
type writeLoop struct {
	process
	ops         []fabric.Op
	segs        []fabric.Seg
	completions []fabric.Completion
}

func writer(args []string) (ns float64, err error) {
	numbers := make([]int, 3)
	for i := range numbers {
		if numbers[i], err = strconv.Atoi(args[1+i]); err != nil {
			return 0, err
		}
	}
	size, n, batch := numbers[0], numbers[1], numbers[2]
	var w writeLoop
	if err := w.open(args[0]); err != nil {
		return 0, err
	}
	if err := w.prepare(size, batch); err != nil {
		return 0, err
	}
	for i := 0; i <= n/10; i += batch { // connects, and warms up
		if err := w.batch(); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	for i := 0; i < n; i += batch {
		if err := w.batch(); err != nil {
			return 0, err
		}
	}
	ns = float64(time.Since(begin)) / float64(n)
	return ns, w.close()
}

// prepare exchanges addresses and fills in a batch.
func (w *writeLoop) prepare(size, batch int) error {
	m, err := mem.Map(16 << 20)
	if err != nil {
		return err
	}
	clear(m.Bytes()) // so that its pages are there
	mr, err := w.domain.RegMR(m.Bytes(), fabric.MRConfig{Access: fabric.AccessAll})
	if err != nil {
		return err
	}
	w.closers = append(w.closers, m, mr)
	name, err := w.ep.Name()
	if err != nil {
		return err
	}
	fmt.Println(hex.EncodeToString(name), mr.Addr(), mr.RKey())
	var peerName string
	var addr, key uint64
	if _, err := fmt.Scan(&peerName, &addr, &key); err != nil {
		return err
	}
	address, err := hex.DecodeString(peerName)
	if err != nil {
		return err
	}
	peers, err := w.av.Insert(address)
	if err != nil {
		return err
	}
	for i := range batch {
		w.ops = append(w.ops, fabric.Op{
			ID: uint64(i + 1), Flags: fabric.FlagRemoteCQData, Peer: peers[0], Data: uint64(i), RemoteAddr: addr, RemoteKey: key, NumSeg: 1,
		})
		w.segs = append(w.segs, mr.Seg(0, uint64(size)))
	}
	w.completions = make([]fabric.Completion, batch)
	return nil
}

// batch writes a batch, and polls until it has completed.
func (w *writeLoop) batch() error {
	for posted, done := 0, 0; done < len(w.ops); {
		spin := fabric.MaxSpin
		if posted < len(w.ops) {
			n, err := w.ep.Write(w.ops[posted:], w.segs[posted:])
			if err != nil && !errors.Is(err, fabric.ErrQueueFull) {
				return err
			}
			if posted += n; posted < len(w.ops) {
				spin = 0 // there may be room again before anything completes
			}
		}
		n, err := w.cq.PollSpin(w.completions, spin)
		if err != nil {
			return err
		}
		for i := range w.completions[:n] {
			if err := w.cq.Err(&w.completions[i]); err != nil {
				return err
			}
		}
		done += n
	}
	return nil
}
