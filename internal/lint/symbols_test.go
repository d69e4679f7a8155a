package lint_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// forwarders are functions of the C libraries' own names that shims define, hidden, because inlines of the headers call
// them while the libraries are opened with dlopen.
var forwarders = []string{"ibv_query_port", "ibv_reg_mr", "ibv_reg_mr_iova2"}

// symbols gives every C function that other objects can see the prefix weft_, so that a program that links Weft never
// finds two of one name. Headers define static functions only: two bindings include them.
var symbols = rule{
	name:  "symbols",
	check: checkSymbols,
	planted: []planted{{
		name: "names",
		files: map[string]string{
			"csrc/verbs/qp.c": `#include "qp.h"

/* int commented(void) {
}
*/

int
post(struct a *b,
     int c) {
  if (c) {
  }
}

__attribute__((noinline)) int weft_post(void) { return 0; }
void poll(void) {}
`,
			"csrc/common/abi.h": `struct a {
  int (*f)(int);
};

int weft_a(void) {
}
`,
		},
		want: []string{
			"csrc/common/abi.h:5: function weft_a of a header is not static",
			"csrc/verbs/qp.c:7: function post is neither static nor named weft_",
			"csrc/verbs/qp.c:15: function poll is neither static nor named weft_",
		},
	}, {
		name: "lawful",
		files: map[string]string{
			"csrc/verbs/qp.c": `static const struct a b = {
    .f = poll(1),
};

#define LOAD(x) \
  int load(x) {\
}
int ibv_query_port(void) {
}

static void
local(void) {
}

int weft_a(void);
void weft_b(void)
{
}
`,
			"csrc/common/abi.h":  "static inline int a(void) {\n}\n",
			"csrc/test/a_test.c": "int main(void) {\n}\n",
		},
	}},
}

func checkSymbols(t *tree) (found []finding) {
	for _, f := range t.cs {
		if path.Dir(f.path) == "csrc/test" {
			continue
		}
		for _, fn := range f.functions() {
			switch {
			case fn.static:
			case path.Ext(f.path) == ".h":
				found = append(found, finding{f.path, fn.line, "function " + fn.name + " of a header is not static"})
			case !strings.HasPrefix(fn.name, "weft_") && !slices.Contains(forwarders, fn.name):
				found = append(found, finding{f.path, fn.line, "function " + fn.name + " is neither static nor named weft_"})
			}
		}
	}
	return found
}

// cFunc is the definition of a C function.
type cFunc struct {
	name        string
	static      bool
	line, lines int // where it begins, and how many lines it takes
}

var (
	cComment   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	cDirective = regexp.MustCompile(`(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$`)
	cAttribute = regexp.MustCompile(`__attribute__\s*\(\(.*?\)\)`)
)

// functions finds the definitions in a file that clang-format has laid out: they begin in the first column and end with
// the next brace there, or on the line on which they begin.
func (f *cFile) functions() (found []cFunc) {
	text := blank(cDirective, blank(cComment, strings.Join(f.lines, "\n")))
	lines := strings.Split(text, "\n")
	for begin := 0; begin < len(lines); begin++ {
		if strings.TrimSpace(lines[begin]) == "" {
			continue
		}
		head, open := lines[begin], begin
		for !strings.ContainsAny(head, "{;") && open+1 < len(lines) {
			open++
			head += " " + lines[open]
		}
		end := open
		if strings.Count(head, "{") > strings.Count(head, "}") {
			for end++; end < len(lines) && !strings.HasPrefix(lines[end], "}"); end++ {
			}
		}
		if fn, ok := definition(head); ok {
			fn.line, fn.lines = begin+1, end-begin+1
			found = append(found, fn)
		}
		begin = end
	}
	return found
}

// definition reads the text up to a function's opening brace; ok is false for whatever else stands at file scope.
func definition(head string) (fn cFunc, ok bool) {
	head, _, body := strings.Cut(cAttribute.ReplaceAllString(head, ""), "{")
	name := cFunction.FindStringSubmatch(head)
	if !body || name == nil || strings.ContainsAny(head, "=;") {
		return cFunc{}, false
	}
	return cFunc{name: name[1], static: slices.Contains(strings.Fields(head), "static")}, true
}

// blank empties what a pattern matches and keeps the lines.
func blank(pattern *regexp.Regexp, text string) string {
	return pattern.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Repeat("\n", strings.Count(s, "\n"))
	})
}
