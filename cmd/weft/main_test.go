package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestMain(m *testing.M) {
	rdmatest.Main(m, rdmatest.Children{"weft": weftChild, "attacked receiver": attackedReceiver, "stuck receiver": stuckReceiver, "stuck sender": stuckSender})
}

// weft runs a command line.
func weft(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(rdmatest.Context(t, patience), args, &out, &err)
	return status, out.String(), err.String()
}

func TestHelp(t *testing.T) {
	status, out, _ := weft(t, "--help")
	require.Zero(t, status)
	for _, command := range []string{"info", "doctor", "recv", "send"} {
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
		"only received 1":                         {"send", file},
		"the last argument is the receiver":       {"send", file, "192.0.2.1"},
		"unknown command":                         {"recv", "somewhere"},
		"recv needs --dir":                        {"recv"},
		"--window 4095: from 4096 to 1073741824":  {"recv", "--dir", ".", "--window", "4095"},
		"--window 1073741825":                     {"recv", "--dir", ".", "--window", "1073741825"},
		"--rail sim: simrail joins engines of":    {"recv", "--dir", ".", "--rail", "sim"},
		"--rail sim:x: simrail joins engines of":  {"send", "--rail", "sim:x", file, "192.0.2.1:7471"},
		"--rail tcp:eth0: there are verbs:DEVICE": {"send", "--rail", "tcp:eth0", file, "192.0.2.1:7471"},
		"--rail fabric: which provider?":          {"recv", "--dir", ".", "--rail", "fabric"},
		"--rail fabric:sockets: provider \"sockets\" cannot be a rail: there are tcp, efa": {"send", "--rail", "fabric:sockets",
			file, "192.0.2.1:7471"},
		"--rail fabric:TCP: provider \"TCP\" cannot be a rail": {"recv", "--dir", ".", "--rail", "fabric:TCP"},
		"--rail fabric:tcp needs an address":                   {"recv", "--dir", ".", "--rail", "fabric:tcp", "--open", "--listen", ":7471"},
		"--seats 0: from 1 to 1024":                            {"recv", "--dir", ".", "--seats", "0"},
		"--seats 1025: from 1 to 1024":                         {"recv", "--dir", ".", "--seats", "1025"},
		"--data-port 65536: from 0 to 65535":                   {"recv", "--dir", ".", "--rail", "fabric:tcp", "--data-port", "65536"},
		"--data-port 1: only fabric:tcp has such":              {"recv", "--dir", ".", "--rail", "verbs", "--data-port", "1"},
		"--rail verbs:: the name behind":                       {"recv", "--dir", ".", "--rail", "verbs:"},
	} {
		status, out, err := weft(t, args...)
		require.Equal(t, statusUsage, status, args)
		require.Contains(t, err, text)
		require.Contains(t, err, "weft --help")
		require.Empty(t, out)
	}
}

// TestFailures are of commands that were right; with --json they print an object.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	for text, args := range map[string][]string{
		"no such file or directory":     {"recv", "--dir", filepath.Join(dir, "absent")},
		"`weft doctor` says what to do": {"recv", "--dir", dir, "--rail", "verbs:no_such_device"},
	} {
		status, out, err := weft(t, args...)
		require.Equal(t, statusFailed, status, args)
		require.Contains(t, err, text)
		require.Empty(t, out)
		status, out, _ = weft(t, append(args, "--json")...)
		require.Equal(t, statusFailed, status)
		var result struct{ Error string }
		require.NoError(t, json.Unmarshal([]byte(out), &result))
		require.Contains(t, result.Error, text)
	}
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

func TestReportTransfer(t *testing.T) {
	report := filetransfer.Report{Peer: "192.0.2.1:7471", Seconds: 2, RDMABytes: 4096, ControlBytes: 77, Total: filetransfer.Total{Files: 2, Failed: 1, Bytes: 4096},
		Files: []filetransfer.FileReport{{Name: "good", Bytes: 4096, SHA256: "abc"}, {Name: "bad\x1b[2J", Bytes: 1, Error: "exists"}}}
	var out, stderr bytes.Buffer
	a := &app{stdout: &out, stderr: &stderr}
	require.ErrorIs(t, a.reportTransfer(newTransferResult("verbs:rxe0", report, nil)), errReported)
	require.Equal(t, "abc  good  4.0 KiB\n1 of 2 files, 4.0 KiB in 2.00 s, 2.0 KiB/s, over verbs:rxe0, with 192.0.2.1:7471\n",
		out.String())
	require.Equal(t, "weft: 192.0.2.1:7471, \"bad\\x1b[2J\": refused: exists\n", stderr.String())

	out.Reset()
	a.json = true
	require.ErrorIs(t, a.reportTransfer(newTransferResult("verbs:rxe0", report, errors.New("broke off"))), errReported)
	require.JSONEq(t, `{"rail":"verbs:rxe0","peer":"192.0.2.1:7471","seconds":2,"bytes_per_second":2048,"control_bytes":77,
		"rdma_bytes":4096,"error":"broke off","total":{"files":2,"failed":1,"bytes":4096},
		"files":[{"name":"good","folder":false,"bytes":4096,"sha256":"abc","error":""},
		{"name":"bad\u001b[2J","folder":false,"bytes":1,"sha256":"","error":"exists"}]}`, out.String())

	report.Files, report.Total = report.Files[:1], filetransfer.Total{Files: 1, Bytes: 4096}
	require.NoError(t, a.reportTransfer(newTransferResult("verbs:rxe0", report, nil)))
	require.Equal(t, []filetransfer.FileReport{}, newTransferResult("verbs:rxe0", filetransfer.Report{}, nil).Files)
}

func TestFormatBytes(t *testing.T) {
	for text, n := range map[string]float64{"0 B": 0, "1023 B": 1023, "1.0 KiB": 1024, "52.4 MiB": 52.4 * (1 << 20),
		"2048.0 EiB": 1 << 71} {
		require.Equal(t, text, formatBytes(n))
	}
}

// TestProgressBar: nothing is drawn where there is no terminal.
func TestProgressBar(t *testing.T) {
	var stderr bytes.Buffer
	a := &app{stderr: &stderr}
	for _, files := range [][]filetransfer.Source{nil, {{Size: 100}}} {
		p := a.newProgress(files)
		p.moved("file", 50)
		p.end()
	}
	require.Empty(t, stderr.String())
}
