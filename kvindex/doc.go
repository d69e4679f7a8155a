// Package kvindex is an ordered map from uint64 to values with a learned index: faster to read, scan and load than a
// B-tree, and smaller, read without locks while any number of goroutines write.
//
// The structure is that of DPA-Store (Schimmelpfennig et al., "DPA-Store: An Ordered Network Data Path Key-Value
// Store", OSDI 2026): leaves and inner nodes hold sorted keys, and a line per node predicts a key's position within a
// bound ε that is checked when the node is made. Writes go to a small buffer beside the leaf; a full buffer is merged
// into a new leaf, which replaces the old one by a single store. docs/kvindex.md describes the structure, the rules for
// merging, and what was measured.
//
// Index keeps values of any type on Go's heap. Arena keeps uint64 values in memory that the caller supplies, at
// offsets, so that a network card or another process can read it. Keys of other types go through the order-preserving
// functions of this package, or through Tied where 8 bytes do not tell two keys apart.
package kvindex
