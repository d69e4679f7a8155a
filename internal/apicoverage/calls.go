package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Export, Dir, ForTest string
	GoFiles                          []string
	ImportMap                        map[string]string
}

// calls finds the functions of the package in a folder that its external tests call: "Open", "Context.Close". The tests are
// type-checked, so that a name in a text, a comment, or of another type is no call. A method that is called through an
// interface of the tests' own, as Close is by helpers, is called on each type that the tests convert to it. Benchmarks are no
// tests.
func calls(folder string) (map[string]bool, error) {
	packages, err := list(folder)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	var test *listed
	for i, p := range packages {
		exports[p.ImportPath] = p.Export
		if p.ForTest != "" && strings.HasPrefix(p.ImportPath, p.ForTest+"_test ") {
			test = &packages[i]
		}
	}
	if test == nil {
		return nil, nil
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range test.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(test.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	open := func(path string) (io.ReadCloser, error) {
		if mapped, ok := test.ImportMap[path]; ok {
			path = mapped
		}
		return os.Open(exports[path])
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	if _, err := config.Check(test.ImportPath, fset, files, info); err != nil {
		return nil, err
	}
	c := &caller{info: info, path: test.ForTest, called: map[string]bool{}, through: map[string]bool{}, as: map[string][]string{}}
	for _, file := range files {
		c.walk(file)
	}
	for method, names := range c.as {
		for _, name := range names {
			c.called[name] = c.called[name] || c.through[method]
		}
	}
	return c.called, nil
}

// list asks for the package in a folder, its tests, and all that they import.
func list(folder string) ([]listed, error) {
	command := exec.Command("go", "list", "-export", "-deps", "-test", "-json=ImportPath,Export,Dir,ForTest,GoFiles,ImportMap", ".")
	command.Dir = folder
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &complaint)
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// caller collects what tests call.
type caller struct {
	info    *types.Info
	path    string              // of the package that is tested
	called  map[string]bool     // its functions and methods
	through map[string]bool     // methods that are called through an interface
	as      map[string][]string // a method to those of the types that are converted to an interface with it
}

// walk goes through the functions of a file.
func (c *caller) walk(file *ast.File) {
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		switch {
		case !ok:
			c.inspect(decl, nil)
		case fn.Body != nil && !strings.HasPrefix(fn.Name.Name, "Benchmark"):
			c.inspect(fn.Body, fn.Type)
		}
	}
}

// inspect looks at what is in a function of this type, and in those within it.
func (c *caller) inspect(node ast.Node, typ *ast.FuncType) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			c.inspect(n.Body, n.Type)
			return false
		case *ast.Ident:
			c.use(n)
		case *ast.CallExpr:
			c.arguments(n)
		case *ast.CompositeLit:
			c.elements(n)
		case *ast.ReturnStmt:
			if typ != nil && typ.Results != nil {
				c.convertAll(n.Results, c.fieldTypes(typ.Results))
			}
		case *ast.AssignStmt:
			var to []types.Type
			for _, left := range n.Lhs {
				to = append(to, c.info.TypeOf(left))
			}
			c.convertAll(n.Rhs, to)
		}
		return true
	})
}

// use notes a name that is a function's, called or handed on.
func (c *caller) use(name *ast.Ident) {
	fn, ok := c.info.Uses[name].(*types.Func)
	if !ok {
		return
	}
	if receiver := fn.Signature().Recv(); receiver != nil && types.IsInterface(receiver.Type()) {
		c.through[fn.Name()] = true
		return
	}
	if full := c.nameOf(fn); full != "" {
		c.called[full] = true
	}
}

// nameOf is a function of the tested package, with its receiver's type; empty for one of another package.
func (c *caller) nameOf(fn *types.Func) string {
	if fn.Pkg() == nil || fn.Pkg().Path() != c.path {
		return ""
	}
	receiver := fn.Signature().Recv()
	if receiver == nil {
		return fn.Name()
	}
	typ := receiver.Type()
	if pointer, ok := typ.(*types.Pointer); ok {
		typ = pointer.Elem()
	}
	if named, ok := typ.(*types.Named); ok {
		return named.Obj().Name() + "." + fn.Name()
	}
	return ""
}

// convert notes the methods of a value that becomes an interface. Through error and any nothing is called by its name.
func (c *caller) convert(from, to types.Type) {
	if from == nil || to == nil || types.IsInterface(from) || !types.IsInterface(to) || to == types.Universe.Lookup("error").Type() {
		return
	}
	methods := to.Underlying().(*types.Interface)
	for method := range methods.Methods() {
		object, _, _ := types.LookupFieldOrMethod(from, true, method.Pkg(), method.Name())
		if fn, ok := object.(*types.Func); ok && c.nameOf(fn) != "" {
			c.as[method.Name()] = append(c.as[method.Name()], c.nameOf(fn))
		}
	}
}

// convertAll is convert for values and what they are given to. One value may be the several results of a call.
func (c *caller) convertAll(values []ast.Expr, to []types.Type) {
	if len(values) == 1 && len(to) > 1 {
		if several, ok := c.info.TypeOf(values[0]).(*types.Tuple); ok && several.Len() == len(to) {
			for i := range to {
				c.convert(several.At(i).Type(), to[i])
			}
		}
		return
	}
	for i, value := range values {
		if i < len(to) {
			c.convert(c.info.TypeOf(value), to[i])
		}
	}
}

func (c *caller) fieldTypes(fields *ast.FieldList) (all []types.Type) {
	for _, field := range fields.List {
		for range max(len(field.Names), 1) {
			all = append(all, c.info.TypeOf(field.Type))
		}
	}
	return all
}

func (c *caller) arguments(call *ast.CallExpr) {
	signature, ok := c.info.TypeOf(call.Fun).(*types.Signature)
	if !ok { // a conversion
		for _, value := range call.Args {
			c.convert(c.info.TypeOf(value), c.info.TypeOf(call.Fun))
		}
		return
	}
	var to []types.Type
	for i := range max(len(call.Args), signature.Params().Len()) {
		last := signature.Params().Len() - 1
		if signature.Variadic() && i >= last && !call.Ellipsis.IsValid() {
			to = append(to, signature.Params().At(last).Type().(*types.Slice).Elem())
		} else if i <= last {
			to = append(to, signature.Params().At(i).Type())
		}
	}
	c.convertAll(call.Args, to)
}

func (c *caller) elements(literal *ast.CompositeLit) {
	var element types.Type
	switch typ := c.info.TypeOf(literal).Underlying().(type) {
	case *types.Slice:
		element = typ.Elem()
	case *types.Array:
		element = typ.Elem()
	case *types.Map:
		element = typ.Elem()
	}
	for _, value := range literal.Elts {
		to := element
		if pair, ok := value.(*ast.KeyValueExpr); ok {
			if to == nil { // a field of a struct
				to = c.info.TypeOf(pair.Key)
			}
			value = pair.Value
		}
		c.convert(c.info.TypeOf(value), to)
	}
}
