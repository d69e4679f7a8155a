package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	all, err := parse("x", "# one: why\nfile a.go\nrun true\n-\tone\n-\n-\ttwo\n+\tthree\n\n# two\nrun false\nfile b.c\n-gone\nfile a.go\n-x\n+y\n")
	require.NoError(t, err)
	require.Equal(t, []mutant{
		{list: "x", title: "one: why", run: "true", changes: []change{{"a.go", "\tone\n\n\ttwo\n", "\tthree\n"}}},
		{list: "x", title: "two", run: "false", changes: []change{{"b.c", "gone\n", ""}, {"a.go", "x\n", "y\n"}}},
	}, all)
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "x.txt: no fault",
		"file a.go\n":                           "x.txt:1: a list begins with the title",
		"# a\nrun b\n":                          "the last fault has no file",
		"# a\nfile a.go\n-x\n":                  "the last fault has no command",
		"# a\nfile a.go\nrun b\n+x\n":           "the last fault has nothing to replace in a.go",
		"# a\nfile a.go\nrun b\n-x\n+x\n":       "nothing to replace",
		"# a\nfile a.go\nrun b\nrun c\n":        "x.txt:4: a second command",
		"# a\n-x\n":                             "x.txt:2: a line before the file",
		"# a\nfile a.go\nrun b\n-x\n+y\n-z\n":   "x.txt:6: a line to be replaced behind",
		"# a\nfile a.go\nrun b\n-x\nother\n":    `x.txt:5: "other" begins with neither`,
		"# a\nfile a.go\n-x\n\n# b\nfile b.c\n": "x.txt:5: the fault before this one has no command",
	} {
		_, err := parse("x", text)
		require.ErrorContains(t, err, want, text)
	}
}

// TestListsFitTheTree: each fault of the lists can be planted in the tree as it is now.
func TestListsFitTheTree(t *testing.T) {
	const root = "../.."
	all, err := readLists(filepath.Join(root, listFolder), nil)
	require.NoError(t, err)
	one := regexp.MustCompile(`-run \^(\w+)\$ \./(\S+)`) // a command that runs one test, which passes if there is none
	for _, m := range all {
		if named := one.FindStringSubmatch(m.run); named != nil {
			files, err := filepath.Glob(filepath.Join(root, named[2], "*_test.go"))
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(files, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && bytes.Contains(text, []byte("\nfunc "+named[1]+"("))
			}), "%s: %s: there is no test %s in %s", m.list, m.title, named[1], named[2])
		}
		changed := map[string][]byte{} // several changes of one file build on one another
		for _, c := range m.changes {
			text := changed[c.file]
			if text == nil {
				text, err = os.ReadFile(filepath.Join(root, c.file))
				require.NoError(t, err, "%s: %s", m.list, m.title)
			}
			changed[c.file], err = c.apply(text)
			require.NoError(t, err, "%s: %s", m.list, m.title)
		}
	}
}

// TestVerdicts plants faults in a small repository.
func TestVerdicts(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.txt"), []byte("one\ntwo\n"), 0o644))
	git := exec.Command("git", "init", "--quiet")
	git.Dir = folder
	require.NoError(t, git.Run())
	copied, err := copyTree(t.Context(), folder)
	require.NoError(t, err)
	defer copied.remove()
	for run, want := range map[string]string{
		"grep -q two a.txt":                            "found",
		"grep -q one a.txt":                            "SURVIVED",
		"grep -q two a.txt || ! echo '[build failed]'": "INVALID",
		"echo 'a.c:1:2: error: x'; grep -q two a.txt":  "INVALID",
	} {
		m := mutant{list: "x", title: run, run: run, changes: []change{{"a.txt", "two\n", "three\n"}}}
		_, err := copied.command(t.Context(), run)
		require.NoError(t, err, "the sound tree")
		verdict, found, err := copied.attempt(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, want, verdict)
		require.Equal(t, want == "found", found)
		text, err := os.ReadFile(filepath.Join(copied.root, "a.txt"))
		require.NoError(t, err)
		require.Equal(t, "one\ntwo\n", string(text), "the fault is taken away again")
	}
	_, _, err = copied.attempt(t.Context(), mutant{changes: []change{{"a.txt", "four\n", ""}}})
	require.ErrorContains(t, err, "0 times, not once")
}
