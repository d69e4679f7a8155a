// Package csrc carries the C sources that the bindings compile. It has no API.
//
// cgo compiles only the C files in a package's own folder, and the build cache watches only those. So each binding has a
// shim.c of one #include that takes its source from here, and imports this package blankly. Embedding the folders is what
// makes that arrangement hold: "go mod vendor" keeps embedded files where it drops folders without Go code, and an edit
// of any file here, .c or .h, changes this package and so rebuilds the bindings that import it. Nothing of the embedded
// text ends up in a binary, since the variable has no name. scripts/downstream.sh builds a module that requires this one,
// from the module cache and vendored, and fails if this is ever "tidied" away.
package csrc

import "embed"

//go:embed common fabric null test/fabric_write.h verbs
var _ embed.FS
