package lint_test

import "strings"

// mayImport says what each package may import of this module. Arrows go down only, and siblings never import each
// other; dpa, which is backed by verbs, is the one exception. An exact entry counts before the one of a folder above.
var mayImport = map[string][]string{
	"csrc":         {},
	"internal/...": {"internal/..."},
	// The tests' harness looks for the devices that a test asks for.
	"internal/rdmatest": {"internal/...", "verbs", "fabric"},
	// The null provider is compiled from csrc.
	"internal/cgotest": {"internal/...", "csrc"},

	"verbs":   {"internal/...", "csrc"},
	"fabric":  {"internal/...", "csrc"},
	"gdrcopy": {"internal/...", "csrc"},
	"dpa":     {"internal/...", "csrc", "verbs"},

	"transferengine":              {"internal/...", "transferengine/rail"},
	"transferengine/rail":         {},
	"transferengine/internal/...": {"internal/...", "transferengine/rail"},
	"transferengine/verbsrail":    {"internal/...", "transferengine/internal/...", "transferengine/rail", "verbs"},
	"transferengine/fabricrail":   {"internal/...", "transferengine/internal/...", "transferengine/rail", "fabric"},
	"transferengine/simrail":      {"internal/...", "transferengine/rail"},
	"transferengine/railtest":     {"internal/...", "transferengine", "transferengine/rail"},
	"transferengine/rendezvous":   {"internal/..."},
	"transferengine/metricshttp":  {"internal/...", "transferengine"},

	"kvindex": {},
	"kvstore": {"internal/...", "kvindex", "dpa", "transferengine"},
	"moe":     {"internal/...", "transferengine"},

	// What the README shows: a user's program.
	"examples/...": {"transferengine", "transferengine/rail", "transferengine/fabricrail"},
	"cmd/...":      {"..."},
}

// testsMayImport adds to mayImport for test files; every one of them may also import its own package and internal/.
// The engine's tests need rails, and a rail's tests an engine.
var testsMayImport = map[string][]string{
	"transferengine/...": {"transferengine/...", "verbs", "fabric"},
	"kvstore":            {"transferengine/..."},
	"moe":                {"transferengine/..."},
}

// thirdParty says who may import packages of other modules, by module path; whatever is not here is not imported.
var thirdParty = map[string]struct {
	importers []string
	tests     bool // any test file
}{
	// The library's only dependency.
	"golang.org/x/sys": {importers: []string{
		"cmd/...", "dpa", "fabric", "gdrcopy", "internal/...", "kvstore", "moe", "transferengine/...", "verbs",
	}, tests: true},
	"github.com/stretchr/testify": {importers: []string{"internal/rdmatest", "transferengine/railtest"}, tests: true},
	// It sets the process's one traceback handler: that is for a program to decide.
	"github.com/ianlancetaylor/cgosymbolizer": {importers: []string{"cmd/...", "internal/rdmatest"}},
	"github.com/spf13/cobra":                  {importers: []string{"cmd/..."}},
	"github.com/vbauerster/mpb":               {importers: []string{"cmd/..."}},
}

var imports = rule{
	name:  "imports",
	check: checkImports,
	planted: []planted{{
		name: "siblings",
		files: map[string]string{
			"fabric/mr.go": "package fabric\n\nimport \"github.com/weftrdma/weft/verbs\"\n",
		},
		want: []string{"fabric/mr.go:3: fabric may not import verbs"},
	}, {
		name: "upwards and across the seam",
		files: map[string]string{
			"verbs/a.go":               "package verbs\n\nimport \"github.com/weftrdma/weft/transferengine\"\n",
			"transferengine/a.go":      "package transferengine\n\nimport \"github.com/weftrdma/weft/verbs\"\n",
			"transferengine/rail/a.go": "package rail\n\nimport \"github.com/weftrdma/weft/internal/life\"\n",
		},
		want: []string{
			"transferengine/a.go:3: transferengine may not import verbs",
			"transferengine/rail/a.go:3: transferengine/rail may not import internal/life",
			"verbs/a.go:3: verbs may not import transferengine",
		},
	}, {
		name:  "a package outside the table",
		files: map[string]string{"helpers/a.go": "package helpers\n"},
		want:  []string{"helpers/a.go:1: package helpers is not in mayImport of internal/lint: decide what it may import"},
	}, {
		name: "third parties",
		files: map[string]string{
			"kvindex/a.go": "package kvindex\n\nimport \"golang.org/x/sys/unix\"\n",
			"verbs/a.go":   "package verbs\n\nimport \"github.com/stretchr/testify/require\"\n",
			"moe/a.go":     "package moe\n\nimport \"example.com/other\"\n",
		},
		want: []string{
			"kvindex/a.go:3: kvindex may not import golang.org/x/sys/unix",
			"moe/a.go:3: moe may not import example.com/other",
			"verbs/a.go:3: verbs may not import github.com/stretchr/testify/require",
		},
	}, {
		name: "csrc by name",
		files: map[string]string{
			"verbs/a.go": "package verbs\n\nimport \"github.com/weftrdma/weft/csrc\"\n",
		},
		want: []string{"verbs/a.go:3: csrc has no API: import it blankly"},
	}, {
		name: "lawful",
		files: map[string]string{
			"verbs/cgo_linux.go": "package verbs\n\nimport _ \"github.com/weftrdma/weft/csrc\"\n",
			"verbs/a_test.go":    "package verbs_test\n\nimport \"github.com/weftrdma/weft/verbs\"\n",
			"kvindex/a_test.go":  "package kvindex_test\n\nimport \"github.com/stretchr/testify/require\"\n",
			"cmd/weft/main.go": `package main

import (
	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)
`,
		},
	}},
}

func checkImports(t *tree) (found []finding) {
	for _, f := range t.gos {
		allowed, known := lookup(mayImport, f.dir())
		if !known {
			found = append(found, f.found(f.Package,
				"package %s is not in mayImport of internal/lint: decide what it may import", f.dir()))
			continue
		}
		if f.test() {
			more, _ := lookup(testsMayImport, f.dir())
			allowed = append([]string{f.dir(), "internal/..."}, append(allowed, more...)...)
		}
		for _, spec := range f.Imports {
			p := importedPath(spec)
			inner, ours := strings.CutPrefix(p, module)
			switch {
			case ours && inner == "csrc" && (spec.Name == nil || spec.Name.Name != "_"):
				found = append(found, f.found(spec.Pos(), "csrc has no API: import it blankly"))
			case ours && !matchesAny(allowed, inner), !ours && !mayImportOther(f, p):
				found = append(found, f.found(spec.Pos(), "%s may not import %s", f.dir(), strings.TrimPrefix(p, module)))
			}
		}
	}
	return found
}

// lookup finds the entry for a package: its own, or that of the nearest folder above it that has one.
func lookup(table map[string][]string, dir string) (entry []string, ok bool) {
	if entry, ok = table[dir]; ok {
		return entry, true
	}
	for above := dir; ; {
		if entry, ok = table[above+"/..."]; ok {
			return entry, true
		}
		cut := strings.LastIndexByte(above, '/')
		if cut < 0 {
			return nil, false
		}
		above = above[:cut]
	}
}

// mayImportOther decides about packages outside this module.
func mayImportOther(f *goFile, p string) bool {
	if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	for modulePath, who := range thirdParty {
		if matches(modulePath+"/...", p) {
			return who.tests && f.test() || matchesAny(who.importers, f.dir())
		}
	}
	return false
}
