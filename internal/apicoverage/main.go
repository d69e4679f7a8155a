// Command apicoverage lists every function of a library's C headers, and what became of it in the binding of the library:
// bound, by which Go functions; deprecated; or absent, with the reason. It fails if a function is in none of these, or if no
// test of the binding calls what it is bound by.
//
//	apicoverage -headers '/usr/include/infiniband/verbs.h' -prefix ibv_ -absent api.absent -o api.txt [FOLDER]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	var c config
	flag.StringVar(&c.headers, "headers", "", "the C headers: patterns, with spaces between them")
	flag.StringVar(&c.prefix, "prefix", "", "what is in the names of the library's functions")
	flag.StringVar(&c.absent, "absent", "", "the list of functions that are left out: a pattern, a verdict and its reason a line")
	flag.StringVar(&c.out, "o", "", "where the list goes")
	flag.Parse()
	c.folder = "."
	if flag.NArg() > 0 {
		c.folder = flag.Arg(0)
	}
	if err := c.run(); err != nil {
		fmt.Fprintln(os.Stderr, "apicoverage:", err)
		os.Exit(1)
	}
}

// config is what the command is given.
type config struct{ headers, prefix, absent, out, folder string }

func (c config) run() error {
	text, err := readHeaders(c.headers)
	if err != nil {
		return err
	}
	rules, err := readRules(c.absent)
	if err != nil {
		return err
	}
	binding, err := readBinding(c.folder, c.prefix)
	if err != nil {
		return err
	}
	list, problems := cover(functions(text, c.prefix), rules, binding)
	if len(problems) > 0 {
		return fmt.Errorf("%d problems:\n%s", len(problems), strings.Join(problems, "\n"))
	}
	return os.WriteFile(c.out, []byte(list), 0o644)
}

// readHeaders reads all headers that the patterns name; one that names none is an error.
func readHeaders(patterns string) (string, error) {
	var all strings.Builder
	for pattern := range strings.FieldsSeq(patterns) {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		if len(files) == 0 {
			return "", fmt.Errorf("no header %s", pattern)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			all.Write(text)
		}
	}
	return all.String(), nil
}
