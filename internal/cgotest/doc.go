// Package cgotest has the C of tests, since cgo is not allowed in test files: the null provider, a verbs context without a
// device ([Null]), where the verbs binding is part of the build; and for fabric's tests [SetInfoMode],
// [SetInfoMRMode], [RefuseClose], [WatchKeys] and
// [Writes].
package cgotest
