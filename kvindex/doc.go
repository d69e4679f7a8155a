// Package kvindex is an ordered map from uint64 to values with a learned index. It reads, scans and loads faster than a B-tree
// and takes less memory. Readers take no lock while any number of goroutines write.
//
// # Choose
//
//   - [Index] keeps values of any type on Go's heap. [New] makes an empty one, [BulkLoad] one from keys that rise, [ReadFrom] one
//     from a file.
//   - [Arena] keeps uint64 values in memory that the caller supplies, at offsets instead of pointers. A NIC, a device or another
//     process can search it with [Lookup].
//   - [Tied] has keys of which 8 bytes give the order but do not always tell two apart: [NewStrings], [NewAddrs], [NewTied].
//
// Signed integers, floats, times, addresses and strings become keys by [Int64Key], [Float64Key], [TimeKey], [AddrKey] and
// [StringKey], which keep the order.
//
// # What is promised
//
// Every method of an Index may be called from any goroutine until Close; a call after Close panics. Gets, puts and deletes are
// linearizable. A scan sees each leaf as it was at one moment during the scan. A [Snapshot] sees the whole map as it was at one
// moment; close it, because the index keeps what an open snapshot sees.
//
// [Index.Verify] and [Arena.Verify] report any change of a bit that changes an answer. Checks find accidents; they are no
// signatures against somebody who writes the memory on purpose.
//
// # How it works
//
// The structure is that of DPA-Store (Schimmelpfennig et al., "DPA-Store: An Ordered Network Data Path Key-Value Store", OSDI
// 2026). Leaves and inner nodes hold sorted keys. A line per node predicts a key's position within a bound ε, which is checked
// when the node is made. A write goes to a small buffer beside its leaf. A full buffer is merged into a new leaf, which replaces
// the old one by a single store.
//
// docs/kvindex.md says when to use it and has the measurements; docs/kvindex-structure.md has the structure and the arena's format.
package kvindex
