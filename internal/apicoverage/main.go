// Command apicoverage lists every function of a C header, and what became of it in the binding of that header: bound, by
// which Go functions; deprecated; or absent, with the reason. It fails if a function is in none of these, or if no test of
// the binding names what it is bound by.
//
//	apicoverage -header /usr/include/infiniband/verbs.h -absent api.absent -o api.txt [FOLDER]
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	header := flag.String("header", "", "the C header")
	absent := flag.String("absent", "", "the list of functions that are left out: a pattern, a verdict and its reason a line")
	out := flag.String("o", "", "where the list goes")
	flag.Parse()
	if err := run(*header, *absent, *out, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "apicoverage:", err)
		os.Exit(1)
	}
}

func run(header, absent, out, folder string) error {
	if folder == "" {
		folder = "."
	}
	text, err := os.ReadFile(header)
	if err != nil {
		return err
	}
	rules, err := readRules(absent)
	if err != nil {
		return err
	}
	binding, err := readBinding(folder)
	if err != nil {
		return err
	}
	list, problems := cover(functions(string(text)), rules, binding)
	if len(problems) > 0 {
		return fmt.Errorf("%d problems:\n%s", len(problems), strings.Join(problems, "\n"))
	}
	return os.WriteFile(out, []byte(list), 0o644)
}
