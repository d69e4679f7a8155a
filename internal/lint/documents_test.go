package lint_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// document is a Markdown file.
type document struct {
	path string
	text string
}

// documents holds the Markdown files to the tree: what they name is there. Histories (docs/notes, CHANGELOG.md) may name what has
// gone, but their links work.
var documents = rule{
	name:  "documents",
	check: checkDocuments,
	planted: []planted{{
		name: "names of what is not there",
		files: map[string]string{
			"Makefile": "demo: deps ## Show it\n",
			"README.md": "[docs](docs/README.md), [gone](docs/gone.md#part), ![picture](docs/none.svg)\n\n" +
				"`verbs/gone.go` and `gone.go`; `make demo`, `make gone`; `TestGone`, `BenchmarkGone/part`\n\n" +
				"    make missing RUN=TestA\n\n```go\nf[int](x)\n```\n[still](gone.md)\n",
			"docs/README.md":          "[up](../README.md) [no](../NO.md)\n",
			"docs/troubleshooting.md": "### `open engine: … is gone`\n\n### `this text is nowhere`\n\n### `half of … it is nowhere`\n",
			"docs/notes/a.md":         "`verbs/gone.go`, `TestGone`, [gone](gone.md)\n",
			"verbs/a.go":              "package verbs\n\nconst a, b = \"open engine: %w\", \"peer is gone\" + `half of`\n",
		},
		want: []string{
			"README.md:1: links to docs/gone.md, which is not there",
			"README.md:1: links to docs/none.svg, which is not there",
			"README.md:3: names verbs/gone.go, which is not there",
			"README.md:3: names gone.go, which is not there",
			"README.md:3: names make gone, which is no target of the Makefile",
			"README.md:3: names TestGone, which is no test",
			"README.md:3: names BenchmarkGone, which is no test",
			"README.md:5: names make missing, which is no target of the Makefile",
			"README.md:10: links to gone.md, which is not there",
			"docs/README.md:1: links to NO.md, which is not there",
			"docs/notes/a.md:1: links to docs/notes/gone.md, which is not there",
			"docs/troubleshooting.md:3: quotes \"this text is nowhere\", which no source has",
			"docs/troubleshooting.md:5: quotes \"it is nowhere\", which no source has",
		},
	}, {
		name: "lawful",
		files: map[string]string{
			"Makefile":        "demo: deps ## Show it\n",
			"README.md":       "[a](docs/a.md#b) [web](https://example.com/x) `make demo` `verbs` `rdma/fi_a.h` `TestA/part` `a.go`\n",
			"docs/a.md":       "[up](../README.md) `verbs/a.go` `verbs/*.go`, which makes a difference\n",
			"verbs/a.go":      "package verbs\n",
			"verbs/a_test.go": "package verbs_test\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n",
		},
	}},
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	// treePath is a path of this tree, below a folder or a file alone.
	treePath = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+/?$|^[\w-]+\.(go|sh|md|c|h|yml)$`)
	testName = regexp.MustCompile(`^((?:Test|Benchmark|Fuzz|Example)[A-Z]\w*)(/.*)?$`)
	makeCall = regexp.MustCompile(`^(?:sudo )?make ([a-z][a-z0-9-]*)`)
	target   = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	quote    = regexp.MustCompile("^### `(.+)`$")
)

func checkDocuments(t *tree) (found []finding) {
	names := t.names()
	for _, d := range t.documents {
		fenced := false
		for i, line := range strings.Split(d.text, "\n") {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if fenced {
				continue
			}
			for _, text := range d.checkLine(line, names) {
				found = append(found, finding{d.path, i + 1, text})
			}
		}
	}
	return found
}

// checkLine says what a line links to, names or quotes that is not there.
func (d *document) checkLine(line string, names *names) (texts []string) {
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		if to := d.target(m[1]); to != "" && !names.has(to) {
			texts = append(texts, "links to "+to+", which is not there")
		}
	}
	if strings.HasPrefix(d.path, "docs/notes/") || d.path == "CHANGELOG.md" {
		return texts
	}
	for _, code := range codeOf(line) {
		texts = append(texts, names.missing(code)...)
	}
	if m := quote.FindStringSubmatch(line); m != nil && d.path == "docs/troubleshooting.md" {
		for _, part := range strings.Split(m[1], "…") {
			if part = strings.Trim(part, " :"); !names.says(part) {
				texts = append(texts, "quotes "+strconv.Quote(part)+", which no source has")
			}
		}
	}
	return texts
}

// target gives the file that a link leads to, "" where it leads out of the tree.
func (d *document) target(to string) string {
	to, _, _ = strings.Cut(to, "#")
	if to == "" || strings.Contains(to, ":") {
		return ""
	}
	return path.Join(path.Dir(d.path), to)
}

// codeOf gives what a line has as code: its code spans, or the line of an indented block.
func codeOf(line string) (code []string) {
	if command, ok := strings.CutPrefix(line, "    "); ok {
		return []string{strings.TrimPrefix(command, "$ ")}
	}
	for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
		code = append(code, m[1])
	}
	return code
}

// names are what documents may name.
type names struct {
	files   map[string]bool // paths and base names, of folders too
	top     map[string]bool // the folders at the top
	tests   map[string]bool
	targets map[string]bool
	texts   []string // of string literals, and of C sources
}

func (t *tree) names() *names {
	n := &names{files: map[string]bool{}, top: map[string]bool{}, tests: map[string]bool{}, targets: map[string]bool{}}
	_ = fs.WalkDir(t.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == ".git" {
			return fs.SkipDir
		}
		n.files[name], n.files[path.Base(name)] = true, true
		if d.IsDir() && !strings.Contains(name, "/") {
			n.top[name] = true
		}
		return nil
	})
	makefile, _ := fs.ReadFile(t.fsys, "Makefile")
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		n.targets[m[1]] = true
	}
	for _, f := range t.gos {
		ast.Inspect(f.File, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				n.tests[node.Name.Name] = true
			case *ast.BasicLit:
				if text, err := strconv.Unquote(node.Value); err == nil && node.Kind == token.STRING {
					n.texts = append(n.texts, text)
				}
			}
			return true
		})
	}
	for _, f := range t.cs {
		n.texts = append(n.texts, strings.Join(f.lines, "\n"))
	}
	return n
}

func (n *names) has(file string) bool { return n.files[strings.TrimSuffix(file, "/")] }

// says tells whether a source has the text in one piece.
func (n *names) says(text string) bool {
	return slices.ContainsFunc(n.texts, func(source string) bool { return strings.Contains(source, text) })
}

// missing tells what a piece of code names that is not there.
func (n *names) missing(code string) (texts []string) {
	first, _, below := strings.Cut(code, "/")
	if treePath.MatchString(code) && (!below || n.top[first]) && !n.has(code) {
		texts = append(texts, "names "+code+", which is not there")
	}
	if m := testName.FindStringSubmatch(code); m != nil && !n.tests[m[1]] {
		texts = append(texts, "names "+m[1]+", which is no test")
	}
	if m := makeCall.FindStringSubmatch(code); m != nil && !n.targets[m[1]] {
		texts = append(texts, "names make "+m[1]+", which is no target of the Makefile")
	}
	return texts
}
