package rdmatest

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// fakeT records what is done to a test. Methods that it lacks panic.
type fakeT struct {
	testing.TB
	skipped, fatal, log string
	cleanups            []func()
	limit               time.Time // what Deadline gives
}

func (f *fakeT) Helper()          {}
func (f *fakeT) Failed() bool     { return f.fatal != "" }
func (f *fakeT) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *fakeT) Deadline() (time.Time, bool) { return f.limit, !f.limit.IsZero() }

func (f *fakeT) Logf(format string, args ...any) { f.log += fmt.Sprintf(format, args...) }

func (f *fakeT) Skipf(format string, args ...any) {
	f.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *fakeT) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

// do runs the test function to its end, which may be a Goexit, and then its clean-up functions.
func (f *fakeT) do(test func(t testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
}
