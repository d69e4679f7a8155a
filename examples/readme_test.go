package examples_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestMain(m *testing.M) { rdmatest.Main(m, nil) }

// limit bounds what takes a second or two, or a minute where the C shims must be compiled first.
const limit = 3 * time.Minute

// block is a fenced block of a document.
var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// blocks returns the README's blocks of a language.
func blocks(t *testing.T, language string) (texts []string) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, m := range block.FindAllStringSubmatch(string(readme), -1) {
		if m[1] == language {
			texts = append(texts, m[2])
		}
	}
	return texts
}

// TestReadmeProgramsAreTheExamples: the README shows the two programs whole, as they lie here.
func TestReadmeProgramsAreTheExamples(t *testing.T) {
	programs := blocks(t, "go")
	require.Len(t, programs, 2)
	for i, name := range []string{"receive", "send"} {
		text, err := os.ReadFile(filepath.Join(name, "main.go"))
		require.NoError(t, err)
		require.Equal(t, string(text), programs[i], "README.md and examples/%s/main.go", name)
	}
}

// build compiles a program's text as the README has it, in this module.
func build(t *testing.T, name, text string) (program string) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, name+".go")
	require.NoError(t, os.WriteFile(source, []byte(text), 0o644))
	program = filepath.Join(dir, name)
	run(t, "go", "build", "-o", program, source)
	return program
}

// run runs a command to its end, wants success, and returns its output.
func run(t *testing.T, command ...string) (output string) {
	t.Helper()
	cmd := exec.CommandContext(rdmatest.Context(t, limit), command[0], command[1:]...)
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", command, text)
	return string(text)
}

// TestReadmeProgramsRun runs the README's programs in two processes, the second by the line that the first has printed.
func TestReadmeProgramsRun(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	programs := blocks(t, "go")
	require.Len(t, programs, 2)
	receive, send := build(t, "receive", programs[0]), build(t, "send", programs[1])

	receiver := exec.CommandContext(rdmatest.Context(t, limit), receive)
	receiver.Stderr = os.Stderr
	out, err := receiver.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, receiver.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	words := strings.Fields(line)
	require.Len(t, words, 5, line)
	require.Equal(t, []string{"go", "run", "./examples/send"}, words[:3])

	require.Empty(t, run(t, send, words[3], words[4]))
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, receiver.Wait())
	require.Equal(t, "hello, memory of another process\n", string(rest))
}

// figures are what differs from run to run in what weft prints.
var figures = regexp.MustCompile(`[0-9a-f]{64}|\d[\d.]*|[KMG]iB/s`)

// words gives the lines of a program's output without figures, and without the one about what --rail auto found.
func words(output string) (lines []string) {
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "weft: --rail auto: ") {
			lines = append(lines, figures.ReplaceAllString(strings.TrimSpace(line), "#"))
		}
	}
	return lines
}

// session is what a console block of the README says: its last command, and what that prints.
func session(t *testing.T, text string) (command []string, output string) {
	t.Helper()
	at := strings.LastIndex("\n"+text, "\n$ ")
	require.GreaterOrEqual(t, at, 0, text)
	line, output, _ := strings.Cut(text[at+2:], "\n")
	return strings.Fields(line), output
}

// TestReadmeSession runs the README's weft recv and weft send, on a free port and over tcp, and wants what they print to be what
// the README shows, but for the figures.
func TestReadmeSession(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	consoles := blocks(t, "console")
	require.Len(t, consoles, 2)
	program := filepath.Join(t.TempDir(), "weft")
	run(t, "go", "build", "-o", program, "../cmd/weft")
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("incoming", 0o755))
	require.NoError(t, os.WriteFile("model.bin", make([]byte, 5<<20), 0o644))
	require.NoError(t, os.Mkdir("notes", 0o755))
	for _, name := range []string{"one.txt", "two.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join("notes", name), []byte("note\n"), 0o644))
	}

	recv, received := session(t, consoles[0])
	require.Equal(t, []string{"weft", "recv"}, recv[:2])
	receiver := exec.CommandContext(rdmatest.Context(t, limit), program,
		append(recv[1:], "--listen", "127.0.0.1:0", "--rail", "fabric:tcp")...)
	out, err := receiver.StdoutPipe()
	require.NoError(t, err)
	receiver.Stderr = receiver.Stdout
	require.NoError(t, receiver.Start())
	reader := bufio.NewReader(out)
	first, err := reader.ReadString('\n')
	require.NoError(t, err)
	address := regexp.MustCompile(`listening on ([\d.:]+);`).FindStringSubmatch(first)
	require.NotNil(t, address, first)

	send, sent := session(t, consoles[1])
	require.Equal(t, "127.0.0.1:7471", send[len(send)-1])
	send[len(send)-1] = address[1]
	output := run(t, append([]string{program, "send", "--rail", "fabric:tcp"}, send[2:]...)...)
	require.Equal(t, words(sent), words(output))
	rest, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.NoError(t, receiver.Wait())
	require.Equal(t, words(received), words(first+string(rest)))
}
