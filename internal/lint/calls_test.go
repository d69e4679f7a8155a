package lint_test

import (
	"go/ast"
	"path"
	"slices"
)

// forbidden is a function of the standard library that some files must not use.
type forbidden struct {
	pkg, name string
	in        func(*goFile) bool
	why       string
}

var forbiddenCalls = []forbidden{
	{"time", "Sleep", (*goFile).test, "tests wait for the event itself, with a deadline, or use a virtual clock"},
	{"runtime", "SetFinalizer", func(f *goFile) bool { return f.dir() != "internal/rdmatest" }, "finalizers never free: a NIC still writes after the collector has run"},
	{"os", "Getenv", library, libraryEnv},
	{"os", "LookupEnv", library, libraryEnv},
	{"os", "Environ", library, libraryEnv},
}

// skips are the methods that end a test as skipped.
var skips = []string{"Skip", "Skipf", "SkipNow"}

const libraryEnv = "the library has a Config and reads no environment"

func library(f *goFile) bool {
	return !f.test() && !matches("cmd/...", f.dir()) && f.dir() != "internal/rdmatest"
}

// calls forbids functions by where they stand, and skipping in tests: a skip that WEFT_REQUIRE cannot turn into a
// failure is a test that may never run.
var calls = rule{
	name:  "calls",
	check: checkCalls,
	planted: []planted{{
		name: "sleeping and skipping tests",
		files: map[string]string{
			"verbs/qp_test.go": `package verbs_test

import (
	"testing"
	clock "time"
)

func TestA(t *testing.T) {
	clock.Sleep(1)
	t.Skip()
	t.Skipf("no device")
}
`,
			"transferengine/railtest/suite.go": `package railtest

import "testing"

func Run(t *testing.T) { t.SkipNow() }
`,
		},
		want: []string{
			"transferengine/railtest/suite.go:5: SkipNow belongs in internal/rdmatest: use rdmatest.Require",
			"verbs/qp_test.go:9: time.Sleep: tests wait for the event itself, with a deadline, or use a virtual clock",
			"verbs/qp_test.go:10: Skip belongs in internal/rdmatest: use rdmatest.Require",
			"verbs/qp_test.go:11: Skipf belongs in internal/rdmatest: use rdmatest.Require",
		},
	}, {
		name: "finalizers and the environment",
		files: map[string]string{
			"verbs/a.go": `package verbs

import (
	"os"
	"runtime"
)

func f() {
	runtime.SetFinalizer(nil, nil)
	os.Getenv("A")
	os.LookupEnv("A")
}
`,
		},
		want: []string{
			"verbs/a.go:9: runtime.SetFinalizer: finalizers never free: a NIC still writes after the collector has run",
			"verbs/a.go:10: os.Getenv: the library has a Config and reads no environment",
			"verbs/a.go:11: os.LookupEnv: the library has a Config and reads no environment",
		},
	}, {
		name: "lawful",
		files: map[string]string{
			"verbs/a.go": `package verbs

import "time"

func f(s scanner) { time.Sleep(1); s.Skip() }
`,
			"cmd/weft/main.go": `package main

import "os"

func f() { os.Getenv("A") }
`,
			"verbs/a_test.go": `package verbs

import "os"

func f() { os.Getenv("A") }
`,
			"internal/rdmatest/main.go": `package rdmatest

import "testing"

func Require(t *testing.T) { t.Skip() }
`,
		},
	}},
}

func checkCalls(t *tree) (found []finding) {
	for _, f := range t.gos {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				found = append(found, checkSelector(f, selector)...)
			}
			return true
		})
	}
	return found
}

func checkSelector(f *goFile, selector *ast.SelectorExpr) []finding {
	name := selector.Sel.Name
	testing := f.test() || f.importSpec("testing") != nil
	if testing && slices.Contains(skips, name) && f.dir() != "internal/rdmatest" {
		return []finding{f.found(selector.Pos(), "%s belongs in internal/rdmatest: use rdmatest.Require", name)}
	}
	x, ok := selector.X.(*ast.Ident)
	if !ok {
		return nil
	}
	for _, call := range forbiddenCalls {
		if name == call.name && x.Name == f.localName(call.pkg) && call.in(f) {
			return []finding{f.found(selector.Pos(), "%s.%s: %s", call.pkg, call.name, call.why)}
		}
	}
	return nil
}

// localName gives the name that a file has for a package of the standard library; "" when it does not import it.
func (f *goFile) localName(importPath string) string {
	spec := f.importSpec(importPath)
	switch {
	case spec == nil:
		return ""
	case spec.Name != nil:
		return spec.Name.Name
	}
	return path.Base(importPath)
}
