package lint_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// unsafePackages are those whose business is memory outside Go's heap.
var unsafePackages = []string{"internal/mem", "internal/ring", testC}

// unsafeFiles are single files elsewhere that need unsafe, each with its reason.
var unsafeFiles = map[string]string{}

// unsafety keeps unsafe in the files that touch C memory, and in a short list.
var unsafety = rule{
	name:  "unsafe",
	check: checkUnsafe,
	planted: []planted{{
		name: "outside",
		files: map[string]string{
			"transferengine/region.go": "package transferengine\n\nimport \"unsafe\"\n",
			"verbs/mr_test.go":         "package verbs_test\n\nimport \"unsafe\"\n",
		},
		want: []string{
			"transferengine/region.go:3: unsafe belongs in cgo files, their twins and unsafeFiles of internal/lint",
			"verbs/mr_test.go:3: unsafe belongs in cgo files, their twins and unsafeFiles of internal/lint",
		},
	}, {
		name: "a twin outside a binding",
		files: map[string]string{
			"moe/cgo_none.go": "package moe\n\nimport \"unsafe\"\n",
		},
		want: []string{"moe/cgo_none.go:3: unsafe belongs in cgo files, their twins and unsafeFiles of internal/lint"},
	}, {
		name: "lawful",
		files: map[string]string{
			"verbs/cgo_linux.go":    "package verbs\n\nimport \"unsafe\"\n",
			"verbs/cgo_none.go":     "package verbs\n\nimport \"unsafe\"\n",
			"internal/mem/mem.go":   "package mem\n\nimport \"unsafe\"\n",
			"internal/ring/mpsc.go": "package ring\n\nimport \"unsafe\"\n",
		},
	}},
}

func checkUnsafe(t *tree) (found []finding) {
	for _, f := range t.gos {
		spec := f.importSpec("unsafe")
		if spec == nil || matchesAny(unsafePackages, f.dir()) || unsafeFiles[f.path] != "" {
			continue
		}
		_, isBinding := bindings[f.dir()]
		if isBinding && (cgoName.MatchString(f.base()) || f.base() == "cgo_none.go") {
			continue
		}
		found = append(found, f.found(spec.Pos(), "unsafe belongs in cgo files, their twins and unsafeFiles of internal/lint"))
	}
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
