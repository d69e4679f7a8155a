package rdmatest

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is more than any step of these tests takes on a busy machine.
const patience = 20 * time.Second

// exitStatus is the status in an error of Wait; -1 for a child that was killed.
func exitStatus(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	return exit.ExitCode()
}

func TestChildTalks(t *testing.T) {
	c := StartChild(t, "echo", "-test.run=x", "with space")
	for _, line := range []string{"first", "", "third"} {
		require.NoError(t, c.WriteLine(line, patience))
		answer, err := c.ReadLine(patience)
		require.NoError(t, err)
		require.Equal(t, "[-test.run=x with space] "+line, answer)
	}
	require.NoError(t, c.CloseInput())
	_, err := c.ReadLine(patience)
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, c.Wait(patience))
	require.NoError(t, c.Wait(patience), "again")
	require.Error(t, c.WriteLine("too late", patience))
}

func TestChildsStatusAndComplaint(t *testing.T) {
	c := StartChild(t, "exit", "7")
	require.Equal(t, 7, exitStatus(t, c.Wait(patience)))
	require.Equal(t, "a complaint\n", c.Stderr())
}

func TestChildThatLeaksFails(t *testing.T) {
	c := StartChild(t, "leak")
	require.Equal(t, 1, exitStatus(t, c.Wait(patience)))
	require.Contains(t, c.Stderr(), "1 left open:\nqueue pair created by\n")
	require.Contains(t, c.Stderr(), "rdmatest.leak\n")
}

func TestReadLineGoesOnAfterATimeout(t *testing.T) {
	c := StartChild(t, "halves")
	_, err := c.ReadLine(10 * time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.WriteLine("go on", patience))
	line, err := c.ReadLine(patience)
	require.NoError(t, err)
	require.Equal(t, "one line", line)
}

func TestWriteLineGivesUpOnAChildThatDoesNotRead(t *testing.T) {
	c := StartChild(t, "hang")
	err := c.WriteLine(string(make([]byte, 1<<20)), 10*time.Millisecond) // more than a pipe holds
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestWaitGivesUpAndKillEnds(t *testing.T) {
	c := StartChild(t, "hang")
	line, err := c.ReadLine(patience)
	require.NoError(t, err)
	require.Equal(t, "hanging", line)
	require.ErrorIs(t, c.Wait(10*time.Millisecond), os.ErrDeadlineExceeded)
	c.Kill()
	require.Equal(t, -1, exitStatus(t, c.Wait(patience)))
}

func TestChildEndsWithItsTest(t *testing.T) {
	var c *Child
	t.Run("test", func(t *testing.T) { c = StartChild(t, "hang") })
	require.Equal(t, -1, exitStatus(t, c.Wait(patience)), "it hangs unless it is killed")
}

func TestFailedTestLogsTheComplaint(t *testing.T) {
	for _, failed := range []bool{false, true} {
		var f fakeT
		var err error
		f.do(func(t testing.TB) {
			err = StartChild(t, "exit", "7").Wait(patience)
			if failed {
				t.Fatal("for another reason")
			}
		})
		require.Equal(t, 7, exitStatus(t, err))
		if failed {
			require.Equal(t, "child \"exit\" (exit status 7) wrote to standard error:\na complaint\n", f.log)
		} else {
			require.Empty(t, f.log)
		}
	}
}

func TestChildDoesNotStartTests(t *testing.T) {
	t.Setenv(ChildVar, "exit")
	var f fakeT
	f.do(func(t testing.TB) { StartChild(t, "exit", "0") })
	require.Contains(t, f.fatal, "TestMain has to call rdmatest.Main")
}
