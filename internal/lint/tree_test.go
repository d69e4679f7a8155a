package lint_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// module is the prefix of this module's import paths.
const module = "github.com/weftrdma/weft/"

// rule is one thing that has to hold for the whole tree.
type rule struct {
	name    string
	check   func(*tree) []finding
	planted []planted
}

// planted is a tree that a rule is tried on.
type planted struct {
	name  string
	files map[string]string
	want  []string // every finding, as "path:line: text"; none for lawful code
}

// finding is one violation.
type finding struct {
	path string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text) }

// tree is what the rules look at: the module's sources and documents, without testdata and without modules nested in it.
type tree struct {
	fset      *token.FileSet
	fsys      fs.FS
	gos       []*goFile
	cs        []*cFile
	documents []*document
	include   fs.FS // /usr/include
	cgo       bool  // whether this machine builds the bindings
}

// goFile is a parsed Go file.
type goFile struct {
	*ast.File
	path string // relative to the module, with slashes
	fset *token.FileSet
}

// cFile is a C source or header, by lines.
type cFile struct {
	path  string
	lines []string
}

var rules = []rule{imports, border, unsafety, sizes, docs, calls, implements, symbols, documents}

func TestTree(t *testing.T) {
	sources := loadModule(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range r.check(sources) {
				t.Error(f)
			}
		})
	}
}

func TestPlanted(t *testing.T) {
	for _, r := range rules {
		violations := 0
		for _, p := range r.planted {
			violations += len(p.want)
			t.Run(r.name+"/"+p.name, func(t *testing.T) {
				files := fstest.MapFS{}
				for name, text := range p.files {
					files[name] = &fstest.MapFile{Data: []byte(text)}
				}
				sources, err := load(files)
				require.NoError(t, err)
				sources.include, sources.cgo = files, true
				var got []string
				for _, f := range r.check(sources) {
					got = append(got, f.String())
				}
				require.Equal(t, p.want, got)
			})
		}
		require.NotZero(t, violations, "rule %s has no planted violation", r.name)
	}
}

// loadModule reads this module.
func loadModule(t *testing.T) *tree {
	root := os.DirFS("../..")
	_, err := fs.Stat(root, "go.mod")
	require.NoError(t, err)
	sources, err := load(root)
	require.NoError(t, err)
	sources.include = os.DirFS("/usr/include")
	sources.cgo = build.Default.CgoEnabled && build.Default.GOOS == "linux"
	return sources
}

// load reads the sources of a module.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), fsys: fsys}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if foreign(fsys, name) {
				return fs.SkipDir
			}
			return nil
		}
		switch path.Ext(name) {
		case ".go", ".c", ".h", ".md":
			return t.add(fsys, name)
		}
		return nil
	})
	return t, err
}

// foreign tells whether a folder holds no sources of the module.
func foreign(fsys fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	base := path.Base(dir)
	if strings.HasPrefix(base, ".") || base == "testdata" || base == "vendor" || dir == "bin" {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func (t *tree) add(fsys fs.FS, name string) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if path.Ext(name) == ".md" {
		t.documents = append(t.documents, &document{path: name, text: string(text)})
		return nil
	}
	if path.Ext(name) != ".go" {
		t.cs = append(t.cs, &cFile{path: name, lines: strings.Split(string(text), "\n")})
		return nil
	}
	file, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.gos = append(t.gos, &goFile{File: file, path: name, fset: t.fset})
	return nil
}

func (f *goFile) dir() string  { return path.Dir(f.path) }
func (f *goFile) base() string { return path.Base(f.path) }
func (f *goFile) test() bool   { return strings.HasSuffix(f.path, "_test.go") }

// found makes a finding at a position in the file.
func (f *goFile) found(at token.Pos, format string, args ...any) finding {
	return finding{path: f.path, line: f.fset.Position(at).Line, text: fmt.Sprintf(format, args...)}
}

// span gives the number of lines that a node takes.
func (f *goFile) span(n ast.Node) int {
	return f.fset.Position(n.End()).Line - f.fset.Position(n.Pos()).Line + 1
}

// importSpec finds the import of a path.
func (f *goFile) importSpec(importPath string) *ast.ImportSpec {
	for _, spec := range f.Imports {
		if importedPath(spec) == importPath {
			return spec
		}
	}
	return nil
}

// buildLine gives the file's build constraint, without "//go:build".
func (f *goFile) buildLine() string {
	for _, group := range f.Comments {
		if group.Pos() > f.Package {
			break
		}
		for _, c := range group.List {
			if constraint.IsGoBuild(c.Text) {
				return strings.TrimSpace(strings.TrimPrefix(c.Text, "//go:build"))
			}
		}
	}
	return ""
}

func importedPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // the parser accepts no other than quoted paths
	}
	return p
}

// matches tells whether a path is named by a pattern as the go command writes them: "a/b", "a/..." for a and all below,
// or "..." for all.
func matches(pattern, p string) bool {
	if pattern == "..." {
		return true
	}
	below, all := strings.CutSuffix(pattern, "/...")
	return p == below || all && strings.HasPrefix(p, below+"/")
}

func matchesAny(patterns []string, p string) bool {
	for _, pattern := range patterns {
		if matches(pattern, p) {
			return true
		}
	}
	return false
}
