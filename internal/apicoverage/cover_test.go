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

// AllocPD allocates.
//
// Implements:
//
//	struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
func (c *Context) AllocPD() {}
`

func TestListAndItsProblems(t *testing.T) {
	rules := "# why\nibv_rate_* absent rates\nmult_* deprecated old\nibv_node_* absent names\n"
	for name, tc := range map[string]struct {
		test, rules string
		problem     string
	}{
		"whole":                   {"x.AllocPD()", rules + "ibv_poll_* absent polls\n", ""},
		"a function without word": {"x.AllocPD()", rules, "ibv_poll_cq: neither bound nor listed"},
		"untested":                {"", rules + "ibv_poll_* absent polls\n", "ibv_alloc_pd: no test names Context.AllocPD"},
		"a rule for nothing":      {"x.AllocPD()", rules + "ibv_poll_* absent polls\nibv_gone absent gone\n", "rule ibv_gone"},
		"not a rule":              {"x.AllocPD()", "ibv_poll_cq missing\n", "is not PATTERN"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"pd.go": source, "pd_test.go": tc.test, "api.absent": tc.rules, "verbs.h": header})
			out := filepath.Join(dir, "api.txt")
			err := config{filepath.Join(dir, "*.h"), "ibv_", filepath.Join(dir, "api.absent"), out, dir}.run()
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			list, err := os.ReadFile(out)
			require.NoError(t, err)
			require.Contains(t, string(list), "bound       ibv_alloc_pd                         Context.AllocPD\n")
			require.Contains(t, string(list), "deprecated  mult_to_ibv_rate                     old\n")
			require.Contains(t, string(list), "5 functions: 1 bound, 3 absent, 1 deprecated\n")
		})
	}
}

func TestHeadersThatAreMissing(t *testing.T) {
	require.ErrorContains(t, config{headers: filepath.Join(t.TempDir(), "*.h")}.run(), "no header")
}
