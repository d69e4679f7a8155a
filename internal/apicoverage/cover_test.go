package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const header = `
#ifdef __cplusplus
extern "C" {
#endif
/* int ibv_in_a_comment(void); */
struct ops { int (*ibv_field)(int); };
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
const char *ibv_node_type_str(enum t node_type);
int __attribute_const ibv_rate_to_mult(enum ibv_rate rate);
enum ibv_rate mult_to_ibv_rate(int mult);
#define ibv_macro(x) ibv_called_by_a_macro(x)
static inline int ibv_poll_cq(struct ibv_cq *cq)
{
	return ibv_called(cq);
}
#ifdef __cplusplus
}
#endif
`

func TestFunctionsOfAHeader(t *testing.T) {
	require.Equal(t, []string{"ibv_alloc_pd", "ibv_node_type_str", "ibv_poll_cq", "ibv_rate_to_mult", "mult_to_ibv_rate"},
		functions(header, "ibv_"))
}

// write makes a folder with these files.
func write(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

const source = `package verbs

type Context struct{}

// AllocPD allocates.
//
// Implements:
//
//	struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
func (c *Context) AllocPD() error { return nil }

// Other has a method of the same name.
type Other struct{}

func (Other) AllocPD() error { return nil }

type Error struct{}

func (Error) Error() string { return "" }

// Mult is bound too.
//
// Implements:
//
//	int ibv_rate_to_mult(enum ibv_rate rate)
func Mult() {}
`

// The tests of the binding, behind what every one of them begins with.
const tests = `package verbs_test

import (
	"testing"

	"example.com/verbs"
)

type allocator interface{ AllocPD() error }

func helper(a allocator) error { return a.AllocPD() }

func idle(a allocator) {}

var c = new(verbs.Context)

func TestMult(t *testing.T) { verbs.Mult() }

`

// folder is a module with a binding, and this test of AllocPD.
func folder(t *testing.T, test, rules string) string {
	return write(t, map[string]string{
		"go.mod": "module example.com/verbs\n\ngo 1.26\n", "pd.go": source, "pd_test.go": tests + test, "api.absent": rules, "verbs.h": header,
	})
}

const rules = "# why\nmult_* deprecated old and gone\nibv_node_* absent the names of nodes are made here\n" +
	"ibv_poll_* absent it polls in batches\n"

func listOf(dir string) (string, error) {
	out := filepath.Join(dir, "api.txt")
	if err := (config{filepath.Join(dir, "*.h"), "ibv_", filepath.Join(dir, "api.absent"), out, dir}).run(); err != nil {
		return "", err
	}
	list, err := os.ReadFile(out)
	return string(list), err
}

// What a call in a test is: not a name in a text or a comment, of another type, in a benchmark, or handed to somebody who does
// not call it.
func TestCallsAreCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		test string
		is   bool
	}{
		"called":              {"func TestAlloc(t *testing.T) { c.AllocPD() }", true},
		"in a closure":        {"func TestAlloc(t *testing.T) { for _, f := range []func() error{func() error { return c.AllocPD() }} { f() } }", true},
		"as a value":          {"func TestAlloc(t *testing.T) { t.Log(c.AllocPD) }", true},
		"through a helper":    {"func TestAlloc(t *testing.T) { helper(c) }", true},
		"in a list":           {"func TestAlloc(t *testing.T) { for _, a := range []allocator{c} { helper(a) } }", true},
		"in a map":            {"func TestAlloc(t *testing.T) { for _, a := range map[int]allocator{0: c} { helper(a) } }", true},
		"from a function":     {"func get() (allocator, error) { return c, nil }\nfunc TestAlloc(t *testing.T) { a, _ := get(); helper(a) }", true},
		"by an assignment":    {"func TestAlloc(t *testing.T) { var a allocator; a = c; helper(a) }", true},
		"by a conversion":     {"func TestAlloc(t *testing.T) { allocator(c).AllocPD() }", true},
		"nowhere":             {"", false},
		"in a comment":        {"// c.AllocPD()\n", false},
		"in a text":           {"func TestAlloc(t *testing.T) { t.Log(`c.AllocPD()`) }", false},
		"of another type":     {"func TestAlloc(t *testing.T) { verbs.Other{}.AllocPD(); helper(verbs.Other{}) }", false},
		"in a benchmark":      {"func BenchmarkAlloc(b *testing.B) { c.AllocPD() }", false},
		"as any":              {"func TestAlloc(t *testing.T) { t.Log(c) }", false},
		"of a mere interface": {"func TestAlloc(t *testing.T) { idle(verbs.Other{}) }", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := listOf(folder(t, tc.test, rules))
			if tc.is {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "ibv_alloc_pd: no test calls Context.AllocPD")
			}
		})
	}
}

func TestListAndItsProblems(t *testing.T) {
	const called = "func TestAlloc(t *testing.T) { c.AllocPD() }"
	list, err := listOf(folder(t, called, rules))
	require.NoError(t, err)
	require.Contains(t, list, "bound       ibv_alloc_pd                         Context.AllocPD\n")
	require.Contains(t, list, "deprecated  mult_to_ibv_rate                     old and gone\n")
	require.Contains(t, list, "5 functions: 2 bound, 2 absent, 1 deprecated\n")
	for name, tc := range map[string]struct{ test, rules, problem string }{
		"a function without word": {called, "mult_* deprecated old and gone\nibv_node_* absent they are made here\n",
			"ibv_poll_cq: neither bound nor listed"},
		"a rule for nothing":        {called, rules + "ibv_gone absent it is gone now\n", "rule ibv_gone"},
		"not a rule":                {called, "ibv_poll_cq missing\n", "is not PATTERN"},
		"a noun for a reason":       {called, rules + "ibv_poll_* absent polling\n", `"polling" is no reason`},
		"a test that is no program": {"func TestAlloc(t *testing.T) { c.Gone() }", rules, "Gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := listOf(folder(t, tc.test, tc.rules))
			require.ErrorContains(t, err, tc.problem)
		})
	}
}

func TestHeadersThatAreMissing(t *testing.T) {
	require.ErrorContains(t, config{headers: filepath.Join(t.TempDir(), "*.h")}.run(), "no header")
}
