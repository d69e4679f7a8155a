package lint_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// bindings gives the build line of each binding's C files: those with import "C", and the shims.
var bindings = map[string]string{
	"verbs":   "linux && cgo && !noverbs",
	"fabric":  "linux && cgo && !nofabric",
	"gdrcopy": "linux && cgo && gdrcopy",
	"dpa":     "linux && cgo && doca",
}

// testC is the package that holds the C of tests, since cgo is not allowed in test files.
const testC = "internal/cgotest"

var (
	cgoName   = regexp.MustCompile(`^cgo(_[a-z0-9]+)?_linux\.go$`)
	directive = regexp.MustCompile(`(?m)^(?://)?\s*#cgo (noescape|nocallback) (\w+)`)
)

// border keeps C where it belongs: in the bindings' cgo files, which are all that a port or an audit has to read.
var border = rule{
	name:  "border",
	check: checkBorder,
	planted: []planted{{
		name: "cgo outside a binding",
		files: map[string]string{
			"transferengine/cgo_linux.go": `//go:build linux && cgo && !noverbs

package transferengine

import "C"
`,
		},
		want: []string{`transferengine/cgo_linux.go:5: import "C" belongs to verbs, fabric, gdrcopy, dpa and internal/cgotest`},
	}, {
		name: "cgo in a file of another name",
		files: map[string]string{
			"verbs/qp.go": `//go:build linux && cgo && !noverbs

package verbs

import "C"
`,
		},
		want: []string{`verbs/qp.go:5: import "C" belongs in cgo_linux.go or cgo_<noun>_linux.go`},
	}, {
		name: "build lines",
		files: map[string]string{
			"verbs/cgo_linux.go": `//go:build linux && cgo

package verbs

import "C"
`,
			"verbs/cgo_qp_linux.go": "package verbs\n\nimport \"C\"\n",
			"verbs/shim.c":          "//go:build linux\n#include \"../csrc/verbs/shim.c\"\n",
			"cmd/weft/trace.go":     "package main\n\nimport _ \"github.com/ianlancetaylor/cgosymbolizer\"\n",
		},
		want: []string{
			"cmd/weft/trace.go:3: needs the line //go:build linux && cgo && !nosymbolizer",
			"verbs/cgo_linux.go:5: needs the line //go:build linux && cgo && !noverbs",
			"verbs/cgo_qp_linux.go:3: needs the line //go:build linux && cgo && !noverbs",
			"verbs/shim.c:1: needs the line //go:build linux && cgo && !noverbs",
		},
	}, {
		name: "code in a shim",
		files: map[string]string{
			"verbs/shim.c": `//go:build linux && cgo && !noverbs

#include "../csrc/verbs/shim.c"
int weft_a(void) { return 0; }
`,
		},
		want: []string{"verbs/shim.c:4: a shim is one #include: the code belongs in csrc"},
	}, {
		name: "C outside csrc",
		files: map[string]string{
			"moe/kernel.c": "#include \"kernel.h\"\n",
		},
		want: []string{"moe/kernel.c:1: C belongs in csrc, shims in the bindings"},
	}, {
		name: "calls into Go, and half of a promise",
		files: map[string]string{
			"verbs/cgo_linux.go": `//go:build linux && cgo && !noverbs

package verbs

/*
#cgo noescape weft_post
*/
import "C"

//export onEvent
func onEvent() {}
`,
		},
		want: []string{
			"verbs/cgo_linux.go:10: C never calls Go: no //export",
			"verbs/cgo_linux.go:5: #cgo noescape and nocallback come together: weft_post",
		},
	}, {
		name: "lawful",
		files: map[string]string{
			"verbs/cgo_qp_linux.go": `//go:build linux && cgo && !noverbs

package verbs

// #cgo noescape weft_post
// #cgo nocallback weft_post
import "C"
`,
			"verbs/shim.c": `//go:build linux && cgo && !noverbs

// Why.
#include "../csrc/verbs/shim.c"
`,
			"internal/cgotest/c.go": `//go:build cgo

package cgotest

import "C"
`,
			"internal/cgotest/peers.c": "int weft_test_a(void) { return 0; }\n",
			"csrc/verbs/shim.c":        "#include \"shim.h\"\n",
		},
	}},
}

func checkBorder(t *tree) (found []finding) {
	for _, f := range t.gos {
		found = append(found, checkCgo(f)...)
		found = append(found, checkDirectives(f)...)
	}
	for _, f := range t.cs {
		found = append(found, checkShim(f)...)
	}
	return found
}

// checkCgo looks at where a file imports C, or the library that unwinds it, and under which build line.
func checkCgo(f *goFile) []finding {
	if spec := f.importSpec("github.com/ianlancetaylor/cgosymbolizer"); spec != nil {
		return needLine(f.found(spec.Pos(), ""), f.buildLine(), "linux && cgo && !nosymbolizer")
	}
	spec := f.importSpec("C")
	if spec == nil || f.dir() == testC {
		return nil
	}
	line, isBinding := bindings[f.dir()]
	switch {
	case !isBinding:
		return []finding{f.found(spec.Pos(), `import "C" belongs to verbs, fabric, gdrcopy, dpa and %s`, testC)}
	case !cgoName.MatchString(f.base()):
		return []finding{f.found(spec.Pos(), `import "C" belongs in cgo_linux.go or cgo_<noun>_linux.go`)}
	}
	return needLine(f.found(spec.Pos(), ""), f.buildLine(), line)
}

func needLine(at finding, got, want string) []finding {
	if got == want {
		return nil
	}
	at.text = "needs the line //go:build " + want
	return []finding{at}
}

// checkDirectives looks at what a file promises cgo about its C functions. noescape without nocallback (and the other
// way round) is a promise that the other half can break.
func checkDirectives(f *goFile) (found []finding) {
	for _, group := range f.Comments {
		promised := map[string][]string{"noescape": nil, "nocallback": nil}
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//export ") {
				found = append(found, f.found(c.Pos(), "C never calls Go: no //export"))
			}
			for _, m := range directive.FindAllStringSubmatch(c.Text, -1) {
				promised[m[1]] = append(promised[m[1]], m[2])
			}
		}
		for _, pair := range [][2]string{{"noescape", "nocallback"}, {"nocallback", "noescape"}} {
			for _, function := range promised[pair[0]] {
				if !slices.Contains(promised[pair[1]], function) {
					found = append(found, f.found(group.Pos(), "#cgo noescape and nocallback come together: %s", function))
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b finding) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// checkShim looks at C outside csrc: a binding has one #include under the build line of its cgo files, so that the
// source it includes is compiled in the binding's package and nowhere else.
func checkShim(f *cFile) []finding {
	dir := path.Dir(f.path)
	if matches("csrc/...", dir) || dir == testC {
		return nil
	}
	line, isBinding := bindings[dir]
	if !isBinding {
		return []finding{{f.path, 1, "C belongs in csrc, shims in the bindings"}}
	}
	got := strings.TrimSpace(strings.TrimPrefix(f.lines[0], "//go:build"))
	found := needLine(finding{path: f.path, line: 1}, got, line)
	includes := 0
	for i, text := range f.lines {
		if text == "" || strings.HasPrefix(text, "//") {
			continue
		}
		if strings.HasPrefix(text, "#include ") {
			includes++
		}
		if includes != 1 || !strings.HasPrefix(text, "#include ") {
			found = append(found, finding{f.path, i + 1, "a shim is one #include: the code belongs in csrc"})
		}
	}
	return found
}
