package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// console is standard error: lines of text, and where it is a terminal a last line that shows how far a transfer has got. Each
// line begins by clearing that one, so that neither other lines nor what the terminal echoes, such as ^C, stay in it.
type console struct {
	out   io.Writer
	width func() int // of the terminal in columns; 0 if it is none

	mu    sync.Mutex
	drawn bool
}

func newConsole(out io.Writer) *console {
	c := &console{out: out, width: func() int { return 0 }}
	if f, ok := out.(*os.File); ok {
		c.width = func() int { return terminalWidth(f) }
	}
	return c
}

// clearLine returns to the first column and clears what follows (ECMA-48, EL).
const clearLine = "\r\x1b[K"

// Write writes lines.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	return c.out.Write(p)
}

// draw shows a line until something else is written.
func (c *console) draw(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.out, clearLine+line)
	c.drawn = true
}

// clear clears the line that was drawn, before something is written elsewhere on the terminal.
func (c *console) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
}

func (c *console) erase() {
	if c.drawn {
		_, _ = io.WriteString(c.out, clearLine)
		c.drawn = false
	}
}

// meter shows how far a transfer has got.
type meter struct {
	console *console
	now     func() time.Time

	mu          sync.Mutex
	began, last time.Time // of the first and the last line
	done, total int64     // bytes; total is less than 0 if it is not known
	moved       int64     // since it began
}

// drawEvery is how often a line is drawn.
const drawEvery = 100 * time.Millisecond

// newMeter returns a meter for so many bytes, or for an unknown number if total is less than 0.
func (a *app) newMeter(total int64) *meter {
	return &meter{console: a.console, now: time.Now, total: total}
}

// add counts bytes of a file.
func (m *meter) add(file string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += bytes
	m.show(file, bytes)
}

// set says how far a file is, in which so many bytes are new.
func (m *meter) set(file string, done, total, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done, m.total = done, total
	m.show(file, bytes)
}

// show draws the line if it is time. Under mu.
func (m *meter) show(file string, bytes int64) {
	width := m.console.width()
	if width == 0 {
		return
	}
	now := m.now()
	if m.began.IsZero() {
		m.began, m.last = now, now
	}
	m.moved += bytes
	if now.Sub(m.last) < drawEvery {
		return
	}
	m.last = now
	m.console.draw(m.line(file, width-1, now.Sub(m.began)))
}

// line is what is drawn: as much of the file's name as there is room for, how much of it has moved, how fast, and how long
// the rest will take.
func (m *meter) line(file string, width int, elapsed time.Duration) string {
	rate := float64(m.moved) / max(elapsed.Seconds(), 1e-3)
	text := "  " + formatBytes(float64(m.done))
	if m.total >= 0 {
		text += " of " + formatBytes(float64(m.total))
	}
	text += "  " + formatBytes(rate) + "/s"
	if m.total >= m.done && rate > 0 {
		left := time.Duration(float64(m.total-m.done) / rate * float64(time.Second))
		if left < 1000*time.Hour {
			text += "  " + formatLeft(left) + " left"
		}
	}
	return fit(wire.Printable(file), max(width-len(text), 0)) + text
}

// formatLeft writes a time as 0:07, 12:34 or 1:02:03.
func formatLeft(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// fit cuts text at its front so that it takes so many columns at most.
func fit(text string, width int) string {
	columns := 0
	for _, r := range text {
		columns += columnsOf(r)
	}
	if columns <= width {
		return text
	}
	rest := []rune(text)
	for columns > max(width-1, 0) {
		columns -= columnsOf(rest[0])
		rest = rest[1:]
	}
	if width == 0 {
		return ""
	}
	return "…" + string(rest)
}

// columnsOf is how many columns a character takes at most. East Asian characters and emoji take two; to take others for such
// costs some room.
func columnsOf(r rune) int {
	if r >= 0x1100 && !strings.ContainsRune("…–—‘’“”", r) {
		return 2
	}
	return 1
}
