package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// children are the programs that tests start.
var children = rdmatest.Children{"weft": weftChild, "stuck receiver": stuckReceiver, "stuck sender": stuckSender}

func TestMain(m *testing.M) { rdmatest.Main(m, children) }

// weft runs a command line.
func weft(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(rdmatest.Context(t, patience), args, nil, &out, &err)
	return status, out.String(), err.String()
}

func TestHelp(t *testing.T) {
	status, out, _ := weft(t, "--help")
	require.Zero(t, status)
	for _, command := range []string{"info", "doctor", "recv", "send", "version"} {
		require.Contains(t, out, "  "+command+" ")
		status, out, _ := weft(t, command, "--help")
		require.Zero(t, status)
		for _, text := range []string{"--json", "Exit status: 0", "weft " + command} {
			require.Contains(t, out, text, command)
		}
	}
}

// Whoever reaches the address can write files into the folder: others than this machine's only if somebody said so.
func TestReceiverListensOnLoopbackUnlessTold(t *testing.T) {
	_, out, _ := weft(t, "recv", "--help")
	listen := regexp.MustCompile(`--listen address .*\(default "(.*)"\)`).FindStringSubmatch(out)
	require.NotNil(t, listen, out)
	address, err := netip.ParseAddrPort(listen[1])
	require.NoError(t, err)
	require.True(t, address.Addr().IsLoopback(), "%v", address)
}

func TestWrongCommandLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for text, args := range map[string][]string{
		"name a command":                          {},
		`unknown command "copy"`:                  {"copy"},
		"unknown flag: --speed":                   {"send", "--speed", file, "192.0.2.1:7471"},
		"name at least one":                       {"send", file},
		"the last argument is the receiver":       {"send", file, "192.0.2.1"},
		`"0" is no port: from 1 to 65535`:         {"send", file, "192.0.2.1:0"},
		`"70000" is no port`:                      {"send", file, "192.0.2.1:70000"},
		"has no host":                             {"send", file, ":7471"},
		"standard input can be sent once":         {"send", "-", "-", "192.0.2.1:7471"},
		"would both arrive as file: give another": {"send", "--name", "file", "-", file, "192.0.2.1:7471"},
		"--name has 0 bytes: from 1 to 4095":      {"send", "--name", "", "-", "192.0.2.1:7471"},
		"--name has 4096 bytes: from 1 to 4095":   {"send", "--name", strings.Repeat("x", 4096), "-", "192.0.2.1:7471"},
		"--name x is for standard input":          {"send", "--name", "x", file, "192.0.2.1:7471"},
		"--key-file is empty":                     {"send", "--key-file", "", file, "192.0.2.1:7471"},
		"--key-file is empty: name the file":      {"recv", "--dir", ".", "--key-file="},
		"would both arrive as":                    {"send", file, file, "192.0.2.1:7471"},
		"--listen 127.0.0.1:99999":                {"recv", "--dir", ".", "--listen", "127.0.0.1:99999"},
		"--max-files -1":                          {"recv", "--dir", ".", "--max-files", "-1"},
		"a size is a number":                      {"recv", "--dir", ".", "--max-bytes", "many"},
		"unknown command":                         {"recv", "somewhere"},
		"recv needs --dir":                        {"recv"},
		"--window 4095: from 4KiB to 1GiB":        {"recv", "--dir", ".", "--window", "4095"},
		"--window 1073741825":                     {"recv", "--dir", ".", "--window", "1073741825"},
		"--rail sim: simrail joins engines of":    {"recv", "--dir", ".", "--rail", "sim"},
		"--rail sim:x: simrail joins engines of":  {"send", "--rail", "sim:x", file, "192.0.2.1:7471"},
		"--rail tcp:eth0: there are verbs:DEVICE": {"send", "--rail", "tcp:eth0", file, "192.0.2.1:7471"},
		"--rail fabric: which provider?":          {"recv", "--dir", ".", "--rail", "fabric"},
		"--rail fabric:sockets: provider \"sockets\" cannot be a rail: there are tcp, efa": {"send", "--rail", "fabric:sockets",
			file, "192.0.2.1:7471"},
		"--rail fabric:TCP: provider \"TCP\" cannot be a rail": {"recv", "--dir", ".", "--rail", "fabric:TCP"},
		"--rail fabric:tcp needs an address":                   {"recv", "--dir", ".", "--rail", "fabric:tcp", "--open", "--listen", ":0"},
		"--seats 0: from 1 to 1024":                            {"recv", "--dir", ".", "--seats", "0"},
		"--seats 1025: from 1 to 1024":                         {"recv", "--dir", ".", "--seats", "1025"},
		"--data-port 65536: from 0 to 65535":                   {"recv", "--dir", ".", "--rail", "fabric:tcp", "--data-port", "65536"},
		"--advertise 192.0.2.1: give the IP address and port":  {"recv", "--dir", ".", "--rail", "fabric:tcp", "--data-port", "1", "--advertise", "192.0.2.1"},
		"--advertise 0.0.0.0:1: give the IP address":           {"recv", "--dir", ".", "--rail", "fabric:tcp", "--data-port", "1", "--advertise", "0.0.0.0:1"},
		"--advertise 192.0.2.1:1: give --data-port too":        {"recv", "--dir", ".", "--rail", "fabric:tcp", "--advertise", "192.0.2.1:1"},
		"--advertise 192.0.2.1:1: give --rail fabric:tcp too":  {"recv", "--dir", ".", "--data-port", "1", "--advertise", "192.0.2.1:1"},
		"--data-port 1: only fabric:tcp has such":              {"recv", "--dir", ".", "--rail", "verbs", "--data-port", "1"},
		"--rail verbs:: the name behind":                       {"recv", "--dir", ".", "--rail", "verbs:"},
	} {
		status, out, err := weft(t, args...)
		require.Equal(t, statusUsage, status, args)
		require.Contains(t, err, text)
		require.Regexp(t, `See weft.* --help\.\n$`, err)
		require.Empty(t, out)
	}
}

// TestFailures are of commands that were right; with --json they print an object.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for text, args := range map[string][]string{
		"no such file or directory": {"recv", "--dir", filepath.Join(dir, "absent")},
		"verbs:no_such_device":      {"recv", "--dir", dir, "--listen", "127.0.0.1:0", "--rail", "verbs:no_such_device"},
		"this machine has no address 192.0.2.1. What to do: give one that it has: 127.0.0.1": {"recv", "--dir", dir, "--open", "--listen", "192.0.2.1:7471"},
		"another program listens on port": {"recv", "--dir", dir, "--listen", taken.Addr().String()},
	} {
		requireFailure(t, text, args)
	}
}

func requireFailure(t *testing.T, text string, args []string) {
	t.Helper()
	status, out, err := weft(t, args...)
	require.Equal(t, statusFailed, status, args)
	require.Contains(t, err, text)
	require.Empty(t, out)
	status, out, _ = weft(t, append(args, "--json")...)
	require.Equal(t, statusFailed, status)
	var result outcome
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Contains(t, result.Error, text)
}

func TestTakenDataPort(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	requireFailure(t, "--data-port "+port+": another program listens on port "+port+". What to do: ",
		[]string{"recv", "--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--data-port", port, "--rail", "fabric:tcp"})
}

// TestDoctorKeepsItsWord: where an error says that the doctor has everything, the doctor finds what the error tells.
func TestDoctorKeepsItsWord(t *testing.T) {
	_, _, stderr := weft(t, "recv", "--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--rail", "verbs:no_such_device")
	if !strings.Contains(stderr, "weft doctor") {
		return // this machine has all that RDMA needs, and no device of that name
	}
	fix := regexp.MustCompile("What to do: (.*) \\(`weft doctor --rail (.*)` has").FindStringSubmatch(stderr)
	require.NotNil(t, fix, stderr)
	status, out, _ := weft(t, "doctor", "--rail", fix[2])
	require.Equal(t, statusFailed, status)
	require.Contains(t, out, "fix: "+fix[1]+"\n")
}

// TestDoctorOfAddresses says the same as recv.
func TestDoctorOfAddresses(t *testing.T) {
	_, out, _ := weft(t, "doctor", "--listen", "192.0.2.1:7471")
	require.Contains(t, out, "broken   listen: this machine has no address 192.0.2.1\n         fix: give one that it has: 127.0.0.1")
	_, out, _ = weft(t, "doctor", "--listen", "127.0.0.1:0")
	require.Contains(t, out, "ok       listen: 127.0.0.1:0 can be listened on\n")
}

// TestInfo holds on every machine, with and without libibverbs and devices.
func TestInfo(t *testing.T) {
	status, out, err := weft(t, "info")
	require.Zero(t, status, err)
	require.Contains(t, out, "libibverbs")
	require.Contains(t, out, "device")
	status, out, err = weft(t, "info", "--json")
	require.Zero(t, status, err)
	var result infoResult
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.NotEmpty(t, result.Build.Go)
	require.NotNil(t, result.Devices)
	require.Len(t, result.Libraries, 2)
	require.NotNil(t, result.Providers)
}

func TestBuild(t *testing.T) {
	b := newBuild(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "-tags", Value: "efa,cuda"}, {Key: "CGO_ENABLED", Value: "1"}, {Key: "vcs.revision", Value: "abc"},
	}}, nil, nil)
	require.Equal(t, "v1.2.3", b.Version)
	require.Equal(t, "abc", b.Revision)
	require.Equal(t, []string{"efa", "cuda"}, b.Tags)
	require.Equal(t, []string{"verbs", "fabric"}, b.Rails)
	require.True(t, b.CGO)
	require.Empty(t, newBuild(nil, errors.ErrUnsupported, errors.ErrUnsupported).Rails)
}

func TestDoctor(t *testing.T) {
	status, out, _ := weft(t, "doctor", "--json")
	var result doctorResult
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.NotEmpty(t, result.Findings)
	require.Equal(t, result.Broken > 0, status == statusFailed)
	again, text, _ := weft(t, "doctor")
	require.Equal(t, status, again)
	for _, f := range result.Findings {
		require.Contains(t, text, f.Check+": "+f.Text+"\n")
		if f.Fix != "" {
			require.Contains(t, text, "fix: "+f.Fix+"\n")
		}
	}
}

// TestDoctorOfFabric: what runs the tests of libfabric is in order.
func TestDoctorOfFabric(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	status, out, stderr := weft(t, "doctor", "--rail", "fabric:tcp")
	require.Zero(t, status, out+stderr)
	require.Contains(t, out, "ok       library: libfabric can be used\n")
	require.Contains(t, out, "ok       provider: libfabric has tcp")
	status, out, _ = weft(t, "doctor", "--rail", "fabric:efa")
	require.Equal(t, statusFailed, status)
	require.Contains(t, out, `libfabric has no provider "efa" that can be a rail; it has tcp`)
	for _, command := range [][]string{{"doctor"}, {"recv", "--dir", t.TempDir()}} {
		for rail, want := range map[string]string{"eth0": "there are verbs:DEVICE, fabric:PROVIDER and auto",
			"fabric:shm":     "use tcp, which reaches processes of the same host too",
			"fabric:sockets": `provider "sockets" cannot be a rail: there are tcp`} {
			status, _, stderr := weft(t, append(command, "--rail", rail)...)
			require.Equal(t, statusUsage, status, "%v --rail %s", command, rail)
			require.Contains(t, stderr, want)
		}
	}
}

// testApp is an app that writes into buffers.
func testApp(json bool) (a *app, out, stderr *bytes.Buffer) {
	out, stderr = new(bytes.Buffer), new(bytes.Buffer)
	a = &app{stdout: out, console: newConsole(stderr), json: json}
	a.stderr = a.console
	return a, out, stderr
}

func TestReportTransfer(t *testing.T) {
	report := filetransfer.Report{Peer: "192.0.2.1:7471", Seconds: 2, RDMABytes: 4096, ControlBytes: 77,
		Total: filetransfer.Total{Files: 3, Failed: 1, Bytes: 4096},
		Files: []filetransfer.FileReport{{Name: "good", Bytes: 4096, SHA256: "abc"}, {Name: "bad\x1b[2J", Bytes: 1, Error: "exists"},
			{Name: "folder", Folder: true}}}
	a, out, stderr := testApp(false)
	require.ErrorIs(t, a.reportTransfer("send", "verbs:rxe0", report, nil, 0), errReported)
	require.Equal(t, "abc  good  4.0 KiB\nfolder/\n2 of 3 files, 4.0 KiB in 2.00 s, 2.0 KiB/s, over verbs:rxe0, with 192.0.2.1:7471\n",
		out.String())
	require.Equal(t, "weft: \"bad\\x1b[2J\": exists\n", stderr.String())

	a, out, _ = testApp(true)
	require.ErrorIs(t, a.reportTransfer("recv", "verbs:rxe0", report, errors.New("broke off"), 130), errReported)
	require.JSONEq(t, `{"command":"recv","status":130,"error":"broke off","rail":"verbs:rxe0","peer":"192.0.2.1:7471","seconds":2,
		"bytes_per_second":2048,"control_bytes":77,"rdma_bytes":4096,"total":{"files":3,"failed":1,"bytes":4096},
		"files":[{"name":"good","folder":false,"bytes":4096,"sha256":"abc","error":""},
		{"name":"bad\u001b[2J","folder":false,"bytes":1,"sha256":"","error":"exists"},
		{"name":"folder","folder":true,"bytes":0,"sha256":"","error":""}]}`, out.String())

	report.Files, report.Total = report.Files[:1], filetransfer.Total{Files: 1, Bytes: 4096}
	a, _, _ = testApp(false)
	require.NoError(t, a.reportTransfer("send", "verbs:rxe0", report, nil, 0))
}

// TestReportOfTransferThatEnded says once what ended it, and not for each file.
func TestReportOfTransferThatEnded(t *testing.T) {
	files := make([]filetransfer.FileReport, 1000)
	for i := range files {
		files[i] = filetransfer.FileReport{Name: "x", Error: "not sent to the end: broke off", CutOff: true}
	}
	a, out, stderr := testApp(false)
	require.ErrorIs(t, a.reportTransfer("send", "fabric:tcp", filetransfer.Report{Files: files,
		Total: filetransfer.Total{Files: 1000, Failed: 1000}}, errors.New("broke off"), 1), errReported)
	require.Empty(t, out.String())
	require.Equal(t, "weft: broke off\nweft: 1000 of 1000 files are not in place\n", stderr.String())
}

// TestNamesThatAreNotUTF8 come out of --json as they went in.
func TestNamesThatAreNotUTF8(t *testing.T) {
	const name = "caf\xe9 \xff<&>"
	a, out, _ := testApp(true)
	require.NoError(t, a.reportTransfer("send", "", filetransfer.Report{Files: []filetransfer.FileReport{{Name: name}, {Name: "é"}},
		Total: filetransfer.Total{Files: 2}}, nil, 0))
	var result transferResult
	require.NoError(t, json.Unmarshal(out.Bytes(), &result))
	require.Equal(t, name, string(result.Files[0].NameBytes))
	require.Empty(t, result.Files[1].NameBytes)
	require.Equal(t, "é", result.Files[1].Name)
}

// keys are the fields of a JSON object.
func keys(t *testing.T, text string) (names []string) {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &object), text)
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestOneSchema: a command's object has the same fields when it went well, when it failed, and when the command line was
// wrong.
func TestOneSchema(t *testing.T) {
	a, out, _ := testApp(true)
	require.NoError(t, a.reportTransfer("send", "", filetransfer.Report{}, nil, 0))
	transfer := keys(t, out.String())
	for _, c := range []struct {
		args   []string
		status int
		keys   []string
	}{
		{[]string{"send", "file"}, statusUsage, transfer},
		{[]string{"send", "--no-such-flag", "file", "host:1"}, statusUsage, transfer},
		{[]string{"send", "file", "127.0.0.1:99999"}, statusUsage, transfer},
		{[]string{"recv", "--dir", filepath.Join(t.TempDir(), "absent")}, statusFailed, transfer},
		{[]string{"recv"}, statusUsage, transfer},
		{[]string{"copy"}, statusUsage, []string{"command", "error", "status"}},
		{[]string{"doctor", "--rail", "eth0"}, statusUsage, []string{"broken", "command", "error", "findings", "status"}},
	} {
		status, out, stderr := weft(t, append(c.args, "--json")...)
		require.Equal(t, c.status, status, c.args)
		require.Equal(t, c.keys, keys(t, out), c.args)
		var result outcome
		require.NoError(t, json.Unmarshal([]byte(out), &result))
		require.Equal(t, status, result.Status)
		require.Contains(t, stderr, result.Error)
		if c.args[0] != "copy" {
			require.Equal(t, c.args[0], result.Command)
		}
	}
	for _, command := range []string{"info", "version", "doctor"} {
		_, good, _ := weft(t, command, "--json")
		status, bad, _ := weft(t, command, "--json", "argument")
		require.Equal(t, statusUsage, status)
		require.Equal(t, keys(t, good), keys(t, bad))
	}
}

func TestVersionAndCompletion(t *testing.T) {
	status, out, _ := weft(t, "version")
	require.Zero(t, status)
	require.Regexp(t, `^weft \S+, go\S+, \w+/\w+\n$`, out)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		status, out, _ := weft(t, "completion", shell)
		require.Zero(t, status)
		require.Contains(t, out, "weft")
	}
}

// TestSizes reads numbers of bytes as people write them.
func TestSizes(t *testing.T) {
	for text, n := range map[string]int64{"0": 0, "4096": 4096, "4KiB": 4096, "4 MiB": 4 << 20, "1.5GiB": 3 << 29, "100MB": 1e8,
		"7B": 7, "1TiB": 1 << 40, "2kB": 2000} {
		var v bytesValue
		require.NoError(t, v.Set(text), text)
		require.EqualValues(t, n, v)
		var again bytesValue
		require.NoError(t, again.Set(v.String()))
		require.Equal(t, v, again)
	}
	for _, text := range []string{"", "MiB", "-1", "4M", "1e9", "4/2", "0x10", "9EiB", "4MiBs", "1_000"} {
		require.Error(t, new(bytesValue).Set(text), text)
	}
	four := bytesValue(4 << 20)
	require.Equal(t, "4MiB", four.String())
}

func TestFormatBytes(t *testing.T) {
	for text, n := range map[string]float64{"0 B": 0, "1023 B": 1023, "1.0 KiB": 1024, "52.4 MiB": 52.4 * (1 << 20),
		"2048.0 EiB": 1 << 71} {
		require.Equal(t, text, formatBytes(n))
	}
}

// terminal is a console on a terminal of 60 columns.
func terminal() (*app, *bytes.Buffer) {
	a, _, stderr := testApp(false)
	a.console.width = func() int { return 60 }
	return a, stderr
}

// TestMeter has the file's name, how much has moved, how fast, and the time left, within the terminal's width.
func TestMeter(t *testing.T) {
	a, stderr := terminal()
	now := time.Unix(0, 0)
	m := a.newMeter(100 << 20)
	m.now = func() time.Time { return now }
	m.add("file", 0)
	now = now.Add(10 * time.Second)
	m.add("a folder/with a name that is rather too long for it", 25<<20)
	require.Equal(t, clearLine+"…o long for it  25.0 MiB of 100.0 MiB  2.5 MiB/s  0:30 left", stderr.String())
	stderr.Reset()
	now = now.Add(time.Millisecond)
	m.add("file", 1)
	require.Empty(t, stderr.String(), "too early")
	fmt.Fprintln(a.stderr, "text")
	require.Equal(t, clearLine+"text\n", stderr.String(), "neither the line nor an echoed ^C stays")
	stderr.Reset()
	fmt.Fprintln(a.stderr, "text")
	require.Equal(t, "text\n", stderr.String())

	unknown := a.newMeter(-1)
	require.Equal(t, `"\x1b[2J"  0 B  0 B/s`, unknown.line("\x1b[2J", 60, time.Second))
	require.Equal(t, "…世界  0 B  0 B/s", unknown.line("世界世界世界", 17, time.Second))
	require.Equal(t, "1:02:03", formatLeft(3723*time.Second))
}

// TestNoMeter: nothing is drawn where there is no terminal.
func TestNoMeter(t *testing.T) {
	a, _, stderr := testApp(false)
	m := a.newMeter(100)
	m.began = time.Unix(0, 0)
	m.add("file", 50)
	a.console.clear()
	require.Empty(t, stderr.String())
}

// TestInLine says a sender's place when it changes, and not each time that the receiver repeats it.
func TestInLine(t *testing.T) {
	a, _, stderr := testApp(false)
	say := a.inLine("192.0.2.1:7471")
	for _, place := range []int{2, 2, 2, 1, 1} {
		say(place)
	}
	require.Equal(t, "weft: all seats of 192.0.2.1:7471 are taken; place 2 in line\n"+
		"weft: all seats of 192.0.2.1:7471 are taken; place 1 in line\n", stderr.String())
}

// slowNetwork is the error of a connection that took too long, in the form that has no deadline of package os.
type slowNetwork struct{ error }

func (slowNetwork) Timeout() bool   { return true }
func (slowNetwork) Temporary() bool { return true }

// TestDialErrors say what is wrong with the receiver, and a signal is no error of the network.
func TestDialErrors(t *testing.T) {
	for _, err := range []error{os.ErrDeadlineExceeded, slowNetwork{errors.New("i/o timeout")}} {
		err = explainDial("192.0.2.1:7471", &net.OpError{Op: "dial", Err: err})
		require.EqualError(t, err, "192.0.2.1:7471 does not answer: the host is down, or a firewall lies between")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&signalError{syscall.SIGINT})
	_, err := dial(ctx, "192.0.2.1:7471")
	require.EqualError(t, err, "it was interrupted")
}
