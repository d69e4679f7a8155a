package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// listFolder has the lists.
const listFolder = "testdata/mutants"

// mutant is one planted fault. In its list it reads
//
//	# PSN = QPN: a restarted connection would take late packets for new ones
//	file verbs/state.go
//	run go test -count=1 -run ^TestPSNIsRandom$ ./verbs
//	-	PSN: randomPSN(), GID: gid,
//	+	PSN: qp.num, GID: gid,
//
// with an empty line between two. The lines behind - are in the file exactly once, and those behind + take their place;
// a further file line begins a change of another file, or of another place in the same one. The command passes on the sound tree.
type mutant struct {
	list, title, run string
	changes          []change
}

// change replaces a piece of a file.
type change struct{ file, before, after string }

// readLists reads the lists of these names in the folder, all of them without any name.
func readLists(folder string, names []string) ([]mutant, error) {
	if len(names) == 0 {
		files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(file), ".txt"))
		}
		slices.Sort(names)
	}
	var all []mutant
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name+".txt"))
		if err != nil {
			return nil, err
		}
		mutants, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, mutants...)
	}
	return all, nil
}

// parse reads a list.
func parse(list, text string) ([]mutant, error) {
	var all []mutant
	for number, line := range strings.Split(text, "\n") {
		fail := func(what string) error { return fmt.Errorf("%s.txt:%d: %s", list, number+1, what) }
		if title, ok := strings.CutPrefix(line, "# "); ok {
			if len(all) > 0 && all[len(all)-1].check() != "" {
				return nil, fail("the fault before this one has " + all[len(all)-1].check())
			}
			all = append(all, mutant{list: list, title: title})
			continue
		}
		if line == "" {
			continue
		}
		if len(all) == 0 {
			return nil, fail("a list begins with the title of a fault, \"# …\"")
		}
		if what := all[len(all)-1].add(line); what != "" {
			return nil, fail(what)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s.txt: no fault", list)
	}
	if what := all[len(all)-1].check(); what != "" {
		return nil, fmt.Errorf("%s.txt: the last fault has %s", list, what)
	}
	return all, nil
}

// add takes a line of the fault, and says what is wrong with it.
func (m *mutant) add(line string) string {
	if file, ok := strings.CutPrefix(line, "file "); ok {
		m.changes = append(m.changes, change{file: file})
		return ""
	}
	if run, ok := strings.CutPrefix(line, "run "); ok {
		if m.run != "" {
			return "a second command"
		}
		m.run = run
		return ""
	}
	if len(m.changes) == 0 {
		return "a line before the file that it belongs to"
	}
	last := &m.changes[len(m.changes)-1]
	switch line[0] {
	case '-':
		if last.after != "" {
			return "a line to be replaced behind one that replaces: begin with file again"
		}
		last.before += line[1:] + "\n"
	case '+':
		last.after += line[1:] + "\n"
	default:
		return fmt.Sprintf("%q begins with neither #, file, run, - nor +", line)
	}
	return ""
}

// check says what the fault lacks.
func (m *mutant) check() string {
	if m.run == "" {
		return "no command"
	}
	if len(m.changes) == 0 {
		return "no file"
	}
	for _, c := range m.changes {
		if c.before == "" || c.before == c.after {
			return "nothing to replace in " + c.file
		}
	}
	return ""
}

// apply returns the file's text with the change made.
func (c change) apply(text []byte) ([]byte, error) {
	before := []byte(c.before)
	if n := bytes.Count(text, before); n != 1 {
		return nil, fmt.Errorf("%s has these lines %d times, not once:\n%s", c.file, n, c.before)
	}
	return bytes.Replace(text, before, []byte(c.after), 1), nil
}
