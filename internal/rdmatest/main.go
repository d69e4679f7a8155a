package rdmatest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/weftrdma/weft/internal/life"
)

// ChildVar is the environment variable that carries the part a child process plays.
const ChildVar = "WEFT_TEST_CHILD"

// Children are the parts that child processes of a test binary can play: StartChild runs the function of that name,
// with its arguments, in a process of its own, whose exit status is the result.
type Children map[string]func(args []string) int

// Main is the body of a test main; it does not return. It runs the tests, or in a child process the child's function,
// and exits with status 1, printing the creation stack of each, when objects of internal/life are then still open.
//
// The children may be nil. On linux with cgo it also makes crash traces name C functions, unless the tag nosymbolizer
// is given.
func Main(m *testing.M, children Children) {
	life.Track()
	os.Exit(run(m, children, os.Stderr))
}

// run is Main without the process: m has the tests, and messages go to stderr.
func run(m interface{ Run() int }, children Children, stderr io.Writer) int {
	if err := thisHost().checkRequired(); err != nil {
		fmt.Fprintln(stderr, "rdmatest:", err)
		return 1
	}
	code := 0
	if name, isChild := os.LookupEnv(ChildVar); isChild {
		play, ok := children[name]
		if !ok {
			fmt.Fprintf(stderr, "rdmatest: the test main has no child %q\n", name)
			return 1
		}
		code = play(os.Args[1:])
	} else {
		code = m.Run()
	}
	if left := life.Live(); len(left) > 0 {
		fmt.Fprintf(stderr, "rdmatest: %d left open:\n%s", len(left), strings.Join(left, ""))
		return max(code, 1)
	}
	return code
}
