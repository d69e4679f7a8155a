package lint_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// docs asks for a comment on every package, and in packages that can be imported on every exported name: functions,
// methods, types, interface methods, and constants and variables (where a comment on the group is one on its members,
// and one above several lines in a row on all of them).
// Methods whose name says all, since an interface of the standard library defines it, may go without.
var docs = rule{
	name:  "docs",
	check: checkDocs,
	planted: []planted{{
		name: "undocumented",
		files: map[string]string{
			"verbs/a.go": `package verbs

type QP struct{}

func (q *QP) Close() {}

func Open() {}

const Depth = 1

var (
	ErrA = 1 // ErrA is one.
	ErrB = 2

	// ErrC and ErrD are two.
	ErrC = 3
	ErrD = 4

	ErrE = 5
)

// Word is a counter.
type Word interface {
	Add()
}
`,
		},
		want: []string{
			"verbs/a.go:1: package verbs has no package comment",
			"verbs/a.go:3: exported QP has no comment",
			"verbs/a.go:5: exported QP.Close has no comment",
			"verbs/a.go:7: exported Open has no comment",
			"verbs/a.go:9: exported Depth has no comment",
			"verbs/a.go:13: exported ErrB has no comment",
			"verbs/a.go:19: exported ErrE has no comment",
			"verbs/a.go:24: exported Word.Add has no comment",
		},
	}, {
		name:  "a comment that does not name its package",
		files: map[string]string{"verbs/a.go": "// Bindings.\npackage verbs\n"},
		want:  []string{"verbs/a.go:2: the package comment begins with \"Package verbs\""},
	}, {
		name: "lawful",
		files: map[string]string{
			"verbs/doc.go": "// Package verbs binds libibverbs.\npackage verbs\n",
			"verbs/a.go": `package verbs

// Opcodes.
const (
	Send = iota
	Write
)

type inner struct{}

func (inner) Close() {}

// QP is a queue pair.
type QP struct{}

// Close closes it.
func (*QP) Close() {}

func (*QP) String() {}

// Word is a counter.
type Word interface {
	Add() // Add adds one.
}
`,
			"verbs/a_test.go": "package verbs_test\n\nfunc Helper() {}\n",
			"cmd/weft/main.go": `// Command weft moves files.
package main

func Exported() {}
`,
		},
	}},
}

func checkDocs(t *tree) (found []finding) {
	comments := map[string]bool{}
	for _, f := range t.gos {
		comments[f.dir()] = comments[f.dir()] || !f.test() && f.Doc != nil
	}
	reported := map[string]bool{}
	for _, f := range t.gos {
		if f.test() {
			continue
		}
		begin := "Package " + f.Name.Name
		if f.Name.Name == "main" {
			begin = "Command " + path.Base(f.dir())
		}
		switch {
		case !comments[f.dir()] && !reported[f.dir()]:
			reported[f.dir()] = true
			found = append(found, f.found(f.Package, "package %s has no package comment", f.dir()))
		case f.Doc != nil && !strings.HasPrefix(f.Doc.Text(), begin):
			found = append(found, f.found(f.Package, "the package comment begins with %q", begin))
		}
		if f.Name.Name != "main" {
			found = append(found, checkExported(f)...)
		}
	}
	return found
}

func checkExported(f *goFile) (found []finding) {
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if name, exported := exportedName(decl); exported && decl.Doc == nil && !selfEvident(decl) {
				found = append(found, f.found(decl.Pos(), noComment, name))
			}
		case *ast.GenDecl:
			found = append(found, checkGroup(f, decl)...)
		}
	}
	return found
}

const noComment = "exported %s has no comment"

func selfEvident(fn *ast.FuncDecl) bool {
	return fn.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap"}, fn.Name.Name)
}

// exportedName gives the name of a function or, with its type, of a method, and whether a user can reach it.
func exportedName(fn *ast.FuncDecl) (name string, exported bool) {
	if fn.Recv == nil {
		return fn.Name.Name, fn.Name.IsExported()
	}
	receiver := fn.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.Name + "." + fn.Name.Name, r.IsExported() && fn.Name.IsExported()
		default:
			return "", false
		}
	}
}

// checkGroup looks at the types, constants or variables of one declaration.
func checkGroup(f *goFile, decl *ast.GenDecl) (found []finding) {
	covered := 0 // the line up to which a comment above speaks
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			found = append(found, checkType(f, decl, spec)...)
		case *ast.ValueSpec:
			if spec.Doc != nil || f.fset.Position(spec.Pos()).Line == covered+1 {
				covered = f.fset.Position(spec.End()).Line
				continue
			}
			i := slices.IndexFunc(spec.Names, (*ast.Ident).IsExported)
			if i >= 0 && spec.Comment == nil && decl.Doc == nil {
				found = append(found, f.found(spec.Pos(), noComment, spec.Names[i].Name))
			}
		}
	}
	return found
}

func checkType(f *goFile, decl *ast.GenDecl, spec *ast.TypeSpec) (found []finding) {
	if !spec.Name.IsExported() {
		return nil
	}
	if spec.Doc == nil && decl.Doc == nil {
		found = append(found, f.found(spec.Pos(), noComment, spec.Name.Name))
	}
	if methods, ok := spec.Type.(*ast.InterfaceType); ok {
		for _, m := range methods.Methods.List {
			if len(m.Names) == 1 && m.Names[0].IsExported() && m.Doc == nil && m.Comment == nil {
				found = append(found, f.found(m.Pos(), noComment, spec.Name.Name+"."+m.Names[0].Name))
			}
		}
	}
	return found
}
