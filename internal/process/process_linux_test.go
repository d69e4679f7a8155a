package process_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/process"
)

func TestThisProcess(t *testing.T) {
	this := process.This()
	require.EqualValues(t, os.Getpid(), this.PID)
	require.NotZero(t, this.Boot)
	require.NotZero(t, this.Namespace)
	require.Equal(t, this, process.Unpack(this.Pack()))
	require.Len(t, this.Pack(), process.Size)
	require.False(t, this.Visible(this), "its own end it needs not be told of")
	other := this
	other.PID++
	require.True(t, other.Visible(this))
	other.Namespace++
	require.False(t, other.Visible(this), "of another namespace")
	require.False(t, process.ID{}.Visible(this))
}

func TestTheEndOfAProcessIsTold(t *testing.T) {
	child := exec.Command("cat") // until its input ends
	input, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	id := process.This()
	id.PID = uint32(child.Process.Pid)
	s := process.Watch(id)
	require.NotNil(t, s)
	require.False(t, s.Ended())
	require.NoError(t, input.Close())
	require.NoError(t, child.Wait())
	require.True(t, s.Ended())
	s.Close()
	s = process.Watch(id) // it is there no more
	require.True(t, s.Ended())
	s.Close()
}
