package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// binding is what the Go sources of a folder say.
type binding struct {
	proto *regexp.Regexp      // of a function's name in a prototype
	by    map[string][]string // a C function to the Go functions that name it under "Implements:"
	calls map[string]bool     // the Go functions that tests call
}

// called finds the library's functions where a parenthesis follows their names.
func called(prefix string) *regexp.Regexp {
	return regexp.MustCompile(`\b(\w*` + regexp.QuoteMeta(prefix) + `\w+)\s*\(`)
}

func readBinding(folder, prefix string) (*binding, error) {
	b := &binding{by: map[string][]string{}, proto: called(prefix)}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				b.add(fn)
			}
		}
	}
	for _, names := range b.by {
		slices.Sort(names)
	}
	b.calls, err = calls(folder)
	return b, err
}

func (b *binding) add(fn *ast.FuncDecl) {
	_, prototypes, found := strings.Cut("\n"+fn.Doc.Text(), "\nImplements:")
	if !found {
		return
	}
	name := fn.Name.Name
	if fn.Recv != nil {
		receiver := fn.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		name = receiver.(*ast.Ident).Name + "." + name
	}
	for _, m := range b.proto.FindAllStringSubmatch(prototypes, -1) {
		if !slices.Contains(b.by[m[1]], name) {
			b.by[m[1]] = append(b.by[m[1]], name)
		}
	}
}
