// Package lint holds the rules of this repository that no compiler and no general linter knows, as an ordinary test:
// who may import whom, where cgo and unsafe may stand, how long files and functions get, what is documented, what tests
// must not do, and how C symbols are named. It reads every source file whatever its build tags, with the standard
// library alone, so plain `go test ./...` fails on a violation on any machine.
//
// A rule is a value of type rule, in a file of its own; each carries planted violations that it has to find and lawful
// code that it has to leave alone, so a rule that has gone blind fails the same test.
package lint
