// Command mutants plants faults in a copy of this tree, one at a time, and shows that a named test finds each. A fault that no
// test finds is a missing test. The faults are listed in testdata/mutants, one file a package; list.go has the format.
//
//	mutants [-list] [-run REGEXP] [NAME…]    NAME is that of a list without its folder and ending: verbs, kvindex
//
// Where WEFT_REQUIRE is not set, tests may skip what they need; then they find nothing, and the fault survives.
//
// Exit status: 0 when every fault was found, 1 when one was not, 2 when the command line or a list is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"
)

// commandLimit bounds one command: tests have limits of their own, and a fault that makes one hang for so long was not found.
const commandLimit = 10 * time.Minute

func main() {
	list := flag.Bool("list", false, "only print the faults")
	run := flag.String("run", "", "only the faults whose title matches the regular `expression`")
	flag.Parse()
	chosen, err := choose(*run, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if *list {
		for _, m := range chosen {
			fmt.Printf("%s: %s\n", m.list, m.title)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	missed, err := try(ctx, chosen)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	fmt.Printf("mutants: %d found, %d not\n", len(chosen)-missed, missed)
	if missed > 0 {
		os.Exit(1)
	}
}

// choose reads the lists of these names, all without any, and returns the faults whose titles match.
func choose(pattern string, names []string) ([]mutant, error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	all, err := readLists(listFolder, names)
	if err != nil {
		return nil, err
	}
	var chosen []mutant
	for _, m := range all {
		if matches.MatchString(m.title) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no fault's title matches %q", pattern)
	}
	return chosen, nil
}

// try plants each fault in a copy of the tree, prints what became of it, and returns how many were not found.
func try(ctx context.Context, chosen []mutant) (missed int, err error) {
	copied, err := copyTree(ctx, ".")
	if err != nil {
		return 0, err
	}
	defer copied.remove()
	sound := map[string]bool{} // the commands that passed on the tree without faults
	for _, m := range chosen {
		if !sound[m.run] {
			if output, err := copied.command(ctx, m.run); err != nil {
				return 0, fmt.Errorf("%s: %s fails without any fault: %w\n%s", m.list, m.run, err, tail(output))
			}
			sound[m.run] = true
		}
		start := time.Now()
		verdict, found, err := copied.attempt(ctx, m)
		if err != nil {
			return 0, err
		}
		if !found {
			missed++
		}
		fmt.Printf("%-8s %5.1f s  %s: %s\n", verdict, time.Since(start).Seconds(), m.list, m.title)
		if ctx.Err() != nil {
			return 0, errors.New("interrupted")
		}
	}
	return missed, nil
}
