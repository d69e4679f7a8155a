package lint_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"regexp"
	"strings"
)

// headers gives the C headers that each binding implements, below /usr/include.
var headers = map[string]string{
	"verbs":  "infiniband/verbs.h",
	"fabric": "rdma/*.h",
}

// cFunction finds the name of a function in a C prototype, or in its declaration.
var cFunction = regexp.MustCompile(`\b(\w+)\s*\(`)

// implements holds the bindings' comments to the C headers: what a comment says it implements is declared there.
var implements = rule{
	name:  "implements",
	check: checkImplements,
	planted: []planted{{
		name: "a function that does not exist",
		files: map[string]string{
			"infiniband/verbs.h": "struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);\n",
			"verbs/pd.go": `package verbs

// AllocPD allocates.
//
// Implements:
//
//	struct ibv_pd *ibv_alloc_pds(struct ibv_context *context)
func AllocPD() {}
`,
		},
		want: []string{"verbs/pd.go:3: implements ibv_alloc_pds, which infiniband/verbs.h does not declare"},
	}, {
		name: "nothing named",
		files: map[string]string{
			"infiniband/verbs.h": "",
			"verbs/pd.go": `package verbs

// AllocPD allocates.
//
// Implements: the C function.
func AllocPD() {}
`,
		},
		want: []string{"verbs/pd.go:3: Implements: without a C prototype"},
	}, {
		name: "not a binding",
		files: map[string]string{
			"moe/a.go": `package moe

// Implements:
//
//	int a(void)
func A() {}
`,
		},
		want: []string{"moe/a.go:3: Implements: belongs to bindings whose C headers internal/lint knows"},
	}, {
		name: "header not installed",
		files: map[string]string{
			"verbs/pd.go": `package verbs

// Implements:
//
//	int ibv_a(void)
func A() {}
`,
		},
		want: []string{"verbs/pd.go:3: no infiniband/verbs.h to check this against: run make deps, or set CGO_ENABLED=0"},
	}, {
		name: "lawful",
		files: map[string]string{
			"rdma/fi_a.h": "static inline int fi_a(void)\n{\n}\n",
			"rdma/fi_b.h": "int fi_b(void);\n",
			"fabric/a.go": `package fabric

// A does both.
//
// Implements:
//
//	int fi_a(void)
//	int fi_b(struct fid *fid,
//	         int n)
func A() {}
`,
		},
	}},
}

func checkImplements(t *tree) (found []finding) {
	declared := map[string]map[string]bool{}
	for binding := range headers {
		declared[binding] = t.declared(binding)
	}
	for _, f := range t.gos {
		if f.test() {
			continue
		}
		for _, group := range f.Comments {
			if _, prototypes, ok := strings.Cut("\n"+group.Text(), "\nImplements:"); ok {
				found = append(found, t.checkPrototypes(f, group, prototypes, declared[f.dir()])...)
			}
		}
	}
	return found
}

func (t *tree) checkPrototypes(f *goFile, at *ast.CommentGroup, prototypes string, declared map[string]bool) []finding {
	header, known := headers[f.dir()]
	names := cFunction.FindAllStringSubmatch(prototypes, -1)
	switch {
	case !known:
		return []finding{f.found(at.Pos(), "Implements: belongs to bindings whose C headers internal/lint knows")}
	case len(names) == 0:
		return []finding{f.found(at.Pos(), "Implements: without a C prototype")}
	case declared == nil && !t.cgo:
		return nil // this machine builds no bindings, and has no headers
	case declared == nil:
		return []finding{f.found(at.Pos(), "no %s to check this against: run make deps, or set CGO_ENABLED=0", header)}
	}
	var found []finding
	for _, name := range names {
		if !declared[name[1]] {
			found = append(found, f.found(at.Pos(), "implements %s, which %s does not declare", name[1], header))
		}
	}
	return found
}

// declared collects what a binding's C headers declare; nil when there are none on this machine.
func (t *tree) declared(binding string) map[string]bool {
	files, err := fs.Glob(t.include, headers[binding])
	if err != nil {
		panic(fmt.Sprintf("headers of internal/lint: %v", err))
	}
	var names map[string]bool
	for _, file := range files {
		text, err := fs.ReadFile(t.include, file)
		if err != nil {
			continue
		}
		if names == nil {
			names = map[string]bool{}
		}
		for _, m := range cFunction.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
	}
	return names
}
