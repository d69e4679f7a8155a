package lint_test

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/require"
)

// unsafePackages are those whose business is memory outside Go's heap.
var unsafePackages = []string{"internal/mem", "internal/ring", testC}

// unsafeFiles are single files elsewhere that need unsafe, each with its reason.
var unsafeFiles = map[string]string{
	"fabric/mr.go":               "takes the address of the caller's slice to register it",
	"kvindex/kill_linux_test.go": "maps the memory of an owner that is killed",
	"kvindex/copy.go":            "copies values that are words as words",
	"kvindex/lookup.go":          "looks values up without their type, as its assembly does",
	"kvindex/lookup_amd64.go":    "as lookup.go",
	"kvindex/lookup_other.go":    "as lookup.go",
	"kvindex/protocol_test.go":   "compares lookup.go with its assembly",
	"kvindex/verify_test.go":     "changes pointers that Verify has to notice",
	"kvindex/slot.go":            "repeats a leaf's pointers, and gives them to the lookup without their type",
	"kvindex/sum.go":             "looks at values of any type as bytes, for Verify",
	"verbs/mr.go":                "takes the address of the caller's slice to register it",
	"verbs/memory_test.go":       "maps memory at addresses of its choice",
}

// unsafety keeps unsafe in the files that touch C memory, and in a short list. The bindings' other files may name the
// type unsafe.Pointer, since they hold C handles and give them out as Raw, but not convert to or from it.
var unsafety = rule{
	name:  "unsafe",
	check: checkUnsafe,
	planted: []planted{{
		name: "outside",
		files: map[string]string{
			"transferengine/region.go": "package transferengine\n\nimport \"unsafe\"\n\nvar p unsafe.Pointer\n",
			"moe/cgo_none.go":          "package moe\n\nimport \"unsafe\"\n\nvar p unsafe.Pointer\n",
			"verbs/mr_test.go":         "package verbs_test\n\nimport u \"unsafe\"\n\nvar n = u.Sizeof(1)\n",
		},
		want: []string{
			"moe/cgo_none.go:5: unsafe.Pointer: " + whereUnsafe,
			"transferengine/region.go:5: unsafe.Pointer: " + whereUnsafe,
			"verbs/mr_test.go:5: unsafe.Sizeof: " + whereUnsafe,
		},
	}, {
		name: "more than a handle",
		files: map[string]string{
			"verbs/qp.go": `package verbs

import "unsafe"

func f(p unsafe.Pointer, b []byte) uintptr {
	q := unsafe.Pointer(unsafe.SliceData(b))
	return uintptr(q)
}
`,
		},
		want: []string{
			"verbs/qp.go:6: conversion to unsafe.Pointer: " + whereUnsafe,
			"verbs/qp.go:6: unsafe.SliceData: " + whereUnsafe,
		},
	}, {
		name: "lawful",
		files: map[string]string{
			"verbs/cgo_linux.go":    "package verbs\n\nimport \"unsafe\"\n\nvar n = unsafe.Sizeof(1)\n",
			"verbs/cgo_none.go":     "package verbs\n\nimport \"unsafe\"\n\nvar n = unsafe.Sizeof(1)\n",
			"verbs/mr.go":           "package verbs\n\nimport \"unsafe\"\n\nvar n = unsafe.Sizeof(1)\n",
			"verbs/pd.go":           "package verbs\n\nimport \"unsafe\"\n\nfunc (p *PD) Raw() unsafe.Pointer { return p.ptr }\n",
			"internal/mem/mem.go":   "package mem\n\nimport \"unsafe\"\n\nvar n = unsafe.Sizeof(1)\n",
			"internal/ring/mpsc.go": "package ring\n\nimport \"unsafe\"\n\nvar n = unsafe.Sizeof(1)\n",
		},
	}},
}

const whereUnsafe = "unsafe belongs in cgo files, their twins and unsafeFiles of internal/lint"

func checkUnsafe(t *tree) (found []finding) {
	for _, f := range t.gos {
		_, isBinding := bindings[f.dir()]
		switch {
		case f.importSpec("unsafe") == nil, matchesAny(unsafePackages, f.dir()), unsafeFiles[f.path] != "":
		case isBinding && (cgoName.MatchString(f.base()) || f.base() == "cgo_none.go"):
		default:
			found = append(found, checkUnsafeUses(f, isBinding && !f.test())...)
		}
	}
	return found
}

// checkUnsafeUses looks at what a file does with unsafe; handles tells whether it may hold unsafe.Pointers.
func checkUnsafeUses(f *goFile, handles bool) (found []finding) {
	conversions := map[ast.Expr]bool{}
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			conversions[n.Fun] = true
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			switch {
			case !ok || x.Name != f.localName("unsafe"):
			case n.Sel.Name == "Pointer" && conversions[n]:
				found = append(found, f.found(n.Pos(), "conversion to unsafe.Pointer: %s", whereUnsafe))
			case n.Sel.Name != "Pointer" || !handles:
				found = append(found, f.found(n.Pos(), "unsafe.%s: %s", n.Sel.Name, whereUnsafe))
			}
		}
		return true
	})
	return found
}

// An entry that no longer stands for anything would let the next use of unsafe pass unseen.
func TestUnsafeFilesAreInUse(t *testing.T) {
	sources := loadModule(t)
	inUse := map[string]bool{}
	for _, f := range sources.gos {
		inUse[f.path] = f.importSpec("unsafe") != nil
	}
	for name, reason := range unsafeFiles {
		require.NotEmpty(t, reason, name)
		require.True(t, inUse[name], "%s is in unsafeFiles and does not import unsafe", name)
	}
}
