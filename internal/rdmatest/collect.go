package rdmatest

import "runtime"

// Collect collects garbage, and returns once the finalizers of all that was unreachable have run: a runtime.Pinner that
// leaked has then ended the process.
func Collect() {
	for range 2 { // the finalizers of one collection run before those of the next
		ran := make(chan struct{})
		runtime.SetFinalizer(new([64]byte), func(*[64]byte) { close(ran) })
		runtime.GC()
		<-ran
	}
}
