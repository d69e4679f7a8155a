package rdmatest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/life"
)

func TestMain(m *testing.M) {
	Main(m, Children{
		"echo":   echo,
		"exit":   exit,
		"hang":   hang,
		"halves": halves,
		"leak":   leak,
		"parent": parent,
	})
}

// echo repeats its input behind its arguments.
func echo(args []string) int {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(args, lines.Text())
	}
	return 0
}

// exit complains and exits with the status it is given.
func exit(args []string) int {
	fmt.Fprintln(os.Stderr, "a complaint")
	status, err := strconv.Atoi(args[0])
	if err != nil {
		return 99
	}
	return status
}

// hang does not end by itself in a test's time.
func hang([]string) int {
	fmt.Println("hanging")
	<-time.After(time.Hour)
	return 0
}

// halves writes the second half of a line once it has read one.
func halves([]string) int {
	fmt.Print("one ")
	bufio.NewScanner(os.Stdin).Scan()
	fmt.Println("line")
	return 0
}

// leak leaves an object open.
func leak([]string) int {
	if err := new(life.Object).Init("queue pair", nil, func() error { return nil }); err != nil {
		return 99
	}
	return 0
}

// parent starts a child of its own, tells its process id, and hangs.
func parent([]string) int {
	c, err := startChild("hang", nil)
	if err != nil {
		return 99
	}
	if _, err := c.ReadLine(patience); err != nil {
		return 99
	}
	fmt.Println(c.cmd.Process.Pid)
	return hang(nil)
}

// suite is a testing.M whose result is fixed.
type suite int

func (s suite) Run() int { return int(s) }

func TestRunGivesTheTestsResult(t *testing.T) {
	var messages bytes.Buffer
	require.Equal(t, 0, run(suite(0), nil, &messages))
	require.Equal(t, 3, run(suite(3), nil, &messages))
	require.Empty(t, messages.String())
}

func TestRunFailsForWhatIsLeftOpen(t *testing.T) {
	var left life.Object
	require.NoError(t, left.Init("protection domain", nil, func() error { return nil }))
	var messages bytes.Buffer
	require.Equal(t, 1, run(suite(0), nil, &messages))
	require.Contains(t, messages.String(), "1 left open:\nprotection domain created by\n")
	require.Contains(t, messages.String(), "TestRunFailsForWhatIsLeftOpen")
	require.Equal(t, 3, run(suite(3), nil, &messages), "the tests' own failure comes first")
	require.NoError(t, left.Close())
	require.Equal(t, 0, run(suite(0), nil, &messages))
}

func TestRunRefusesAMisspeltRequirement(t *testing.T) {
	t.Setenv(requireVar, "verbs,verb")
	var messages bytes.Buffer
	require.Equal(t, 1, run(suite(0), nil, &messages))
	require.Contains(t, messages.String(), `unknown capability "verb"; known: ["verbs" "fabric"]`)
}

func TestRunRefusesAnUnknownChild(t *testing.T) {
	t.Setenv(ChildVar, "nobody")
	var messages bytes.Buffer
	require.Equal(t, 1, run(suite(0), Children{"somebody": exit}, &messages))
	require.Contains(t, messages.String(), `no child "nobody"`)
}
