package lint_test

import (
	"fmt"
	"go/ast"
	"path"
	"strings"
)

// Lines that a reader can be asked to hold in view. Tables make test files long, and scripted cases test functions.
const (
	maxFile         = 500
	maxFunction     = 60
	maxTestFunction = 100
)

// sizes bounds files and functions. cgo files hold no logic and are exempt from the first bound, test files too.
var sizes = rule{
	name:  "sizes",
	check: checkSizes,
	planted: []planted{{
		name: "too long",
		files: map[string]string{
			"verbs/file.go":       "package verbs\n" + strings.Repeat("\n", maxFile),
			"verbs/func.go":       "package verbs\n\nfunc (q *qp) f() {" + strings.Repeat("\n", maxFunction) + "}\n",
			"verbs/func_test.go":  "package verbs\n\nfunc f() {" + strings.Repeat("\n", maxTestFunction) + "}\n",
			"verbs/cgo_linux.go":  "package verbs\n\nfunc g() {" + strings.Repeat("\n", maxFunction) + "}\n",
			"csrc/verbs/shim.c":   strings.Repeat("\n", maxFile+1),
			"csrc/verbs/weft_a.c": "static int f(int a,\n             int b) {" + strings.Repeat("\n", maxFunction-1) + "}\n",
		},
		want: []string{
			"verbs/cgo_linux.go:3: function g has 61 lines, more than 60",
			"verbs/file.go:1: 501 lines, more than 500",
			"verbs/func.go:3: function f has 61 lines, more than 60",
			"verbs/func_test.go:3: function f has 101 lines, more than 100",
			"csrc/verbs/shim.c:1: 501 lines, more than 500",
			"csrc/verbs/weft_a.c:1: function f has 61 lines, more than 60",
		},
	}, {
		name: "lawful",
		files: map[string]string{
			"verbs/file.go":      "package verbs\n" + strings.Repeat("\n", maxFile-1),
			"verbs/func.go":      "package verbs\n\nfunc f() {" + strings.Repeat("\n", maxFunction-1) + "}\n",
			"verbs/file_test.go": "package verbs\n" + strings.Repeat("\n", maxFile),
			"verbs/cgo_linux.go": "package verbs\n" + strings.Repeat("\n", maxFile),
			"csrc/verbs/shim.c":  "int weft_f(void) {" + strings.Repeat("\n", maxFunction-1) + "}\n",
		},
	}},
}

func checkSizes(t *tree) (found []finding) {
	for _, f := range t.gos {
		lines := f.fset.File(f.FileStart).LineCount()
		if lines > maxFile && !f.test() && !cgoName.MatchString(f.base()) {
			found = append(found, finding{f.path, 1, tooLong("", lines, maxFile)})
		}
		limit := maxFunction
		if f.test() {
			limit = maxTestFunction
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.span(fn) > limit {
				found = append(found, f.found(fn.Pos(), "%s", tooLong("function "+fn.Name.Name+" has ", f.span(fn), limit)))
			}
		}
	}
	for _, f := range t.cs {
		lines := len(f.lines) - 1 // the last one ends with a newline
		if lines > maxFile && path.Dir(f.path) != "csrc/test" {
			found = append(found, finding{f.path, 1, tooLong("", lines, maxFile)})
		}
		limit := maxFunction
		if path.Dir(f.path) == "csrc/test" {
			limit = maxTestFunction
		}
		for _, fn := range f.functions() {
			if fn.lines > limit {
				found = append(found, finding{f.path, fn.line, tooLong("function "+fn.name+" has ", fn.lines, limit)})
			}
		}
	}
	return found
}

func tooLong(what string, lines, limit int) string {
	return fmt.Sprintf("%s%d lines, more than %d", what, lines, limit)
}
