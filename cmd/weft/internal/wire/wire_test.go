package wire_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/internal/tlv"
)

// messages is one of each kind, by the name of its file of golden bytes.
func messages() map[string]wire.Message {
	return map[string]wire.Message{
		"file-hello":     &wire.Hello{Nonce: nonce(1)},
		"file-challenge": &wire.Challenge{Nonce: nonce(2), Keyed: true},
		"file-request":   &wire.Request{Engine: []byte("engine"), Credits: []byte("credits")},
		"file-wait":      &wire.Wait{Place: 0x01020304},
		"file-welcome":   &wire.Welcome{Engine: []byte("engine"), Window: []byte("window"), SlotSize: 1 << 18, Slots: 16},
		"file-file": &wire.File{Name: "a/b.tar", Size: 0x0102030405060708, Mode: 0o644,
			ModTime: 0x1112131415161718},
		"file-folder": &wire.File{Name: "a", Kind: wire.Folder, Mode: 0o755, ModTime: -1},
		"file-stream": &wire.File{Name: "stdin", Size: wire.UnknownSize, Mode: 0o644},
		"file-accept": &wire.Accept{Number: 0x0102030405060708, Have: 0x1112131415161718, SHA256: [32]byte{0: 1, 31: 32}},
		"file-answer": &wire.Answer{Number: 0x0102030405060708, Refusal: "b.tar exists"},
		"file-alive":  &wire.Alive{},
		"file-end":    &wire.End{},
		"file-abort":  &wire.Abort{Text: "no space left on device"},
	}
}

// nonce is 32 different bytes.
func nonce(first byte) (n [wire.NonceSize]byte) {
	for i := range n {
		n[i] = first + byte(i)
	}
	return n
}

// golden are the bytes that never change.
func golden(t *testing.T, name string) []byte { return goldenOf(t, 2, name) }

// goldenOf are those of a version of the protocol. Hexadecimal, with blanks and lines as one likes.
func goldenOf(t *testing.T, version int, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fmt.Sprintf("../../../../testdata/wire/v%d", version), name+".golden"))
	require.NoError(t, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	return b
}

func TestGolden(t *testing.T) {
	for name, m := range messages() {
		t.Run(name, func(t *testing.T) {
			b, err := wire.Encode(m)
			require.NoError(t, err)
			require.Equal(t, hex.EncodeToString(golden(t, name)), hex.EncodeToString(b))
			back, err := wire.Parse(b)
			require.NoError(t, err)
			require.Equal(t, m, back)
		})
	}
}

func TestOfLaterVersions(t *testing.T) {
	for name, m := range messages() {
		b, err := wire.Encode(m)
		require.NoError(t, err)
		for _, optional := range []uint16{tlv.Auth, 77} {
			back, err := wire.Parse(tlv.Finish(tlv.AppendField(b, optional, []byte("later"))))
			require.NoError(t, err, name)
			require.Equal(t, m, back)
		}
		_, err = wire.Parse(tlv.Finish(tlv.AppendField(b, tlv.Required|77, nil)))
		require.ErrorContains(t, err, "must be understood", name)
		b[4], b[5] = 3, 3
		_, err = wire.Parse(b)
		require.ErrorContains(t, err, "version 3", name)
	}
}

// TestOfVersion1: a peer of the first version learns why it is turned away, and this end reads its Abort.
func TestOfVersion1(t *testing.T) {
	for _, name := range []string{"file-hello", "file-welcome", "file-file", "file-answer", "file-end"} {
		_, err := wire.Parse(goldenOf(t, 1, name))
		require.ErrorContains(t, err, "speaks version 1 of the protocol, this one version 2: install the same weft", name)
	}
	m, err := wire.Parse(goldenOf(t, 1, "file-abort"))
	require.NoError(t, err)
	require.Equal(t, messages()["file-abort"], m)
	b, err := wire.Encode(m)
	require.NoError(t, err)
	old := goldenOf(t, 1, "file-abort")
	require.Equal(t, old[5:], b[5:], "only the version of who wrote it differs")
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		message wire.Message
		reason  string
	}{
		"no engine":          {&wire.Request{Credits: []byte("x")}, "address or descriptor of 0 bytes"},
		"large engine":       {&wire.Request{Engine: make([]byte, wire.MaxMessage+1), Credits: []byte("x")}, "of 8193 bytes"},
		"large message":      {&wire.Request{Engine: make([]byte, wire.MaxMessage), Credits: []byte("x")}, "over the limit"},
		"no place":           {&wire.Wait{}, "place 0 in line"},
		"no slots":           {&wire.Welcome{Engine: []byte("x"), Window: []byte("x"), SlotSize: 1}, "0 slots of 1 bytes"},
		"slots of nothing":   {&wire.Welcome{Engine: []byte("x"), Window: []byte("x"), Slots: 1}, "1 slots of 0 bytes"},
		"no name":            {&wire.File{}, "a name of 0 bytes"},
		"long name":          {&wire.File{Name: strings.Repeat("x", wire.MaxName+1)}, "a name of 4096 bytes"},
		"negative size":      {&wire.File{Name: "x", Size: 1 << 63}, "a size of 9223372036854775808 bytes"},
		"large partial":      {&wire.Accept{Have: 1 << 63}, "9223372036854775808 bytes that are there"},
		"unknown kind":       {&wire.File{Name: "x", Kind: 2}, "kind 2"},
		"folder with bytes":  {&wire.File{Name: "x", Kind: wire.Folder, Size: 1}, "a folder of 1 bytes"},
		"set-user-ID":        {&wire.File{Name: "x", Mode: 0o4755}, "mode 04755"},
		"long refusal":       {&wire.Answer{Refusal: strings.Repeat("x", wire.MaxText+1)}, "a text of 321 bytes"},
		"long abort message": {&wire.Abort{Text: strings.Repeat("x", wire.MaxText+1)}, "a text of 321 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.Encode(c.message)
			require.ErrorContains(t, err, c.reason)
		})
	}
}

// TestRefusedBytes changes the golden bytes so that Parse has to refuse them.
func TestRefusedBytes(t *testing.T) {
	for name := range messages() {
		b := golden(t, name)
		for cut := range b {
			_, err := wire.Parse(b[:cut])
			require.Error(t, err, "%s cut to %d bytes", name, cut)
		}
		if name != "file-end" && name != "file-alive" { // all others have fields
			_, err := wire.Parse(tlv.Finish(append([]byte(nil), b[:12]...)))
			require.ErrorContains(t, err, "fields are there", name)
		}
	}
	_, err := wire.Parse([]byte("GET / HTTP/1.1\r\n"))
	require.ErrorContains(t, err, `starts with "GET "`)
	_, err = wire.Parse(make([]byte, wire.MaxMessage+1))
	require.ErrorContains(t, err, "over the limit of 8192")

	for name, field := range map[string]int{"file-file": 12 + 4 + 7, "file-accept": 12, "file-welcome": 12 + 4 + 6 + 4 + 6} {
		b := golden(t, name)
		short := append([]byte(nil), b[:field+4]...) // the field's value goes
		short[field+2], short[field+3] = 0, 0
		_, err := wire.Parse(tlv.Finish(short))
		require.ErrorContains(t, err, "has 0 bytes, not", name)
	}
}

// TestControlBytes is the promise of 1 KiB a file whose name has no more than 255 bytes: the most that can be said about one.
func TestControlBytes(t *testing.T) {
	total := 0
	for _, m := range []wire.Message{
		&wire.File{Name: strings.Repeat("x", 255)}, &wire.Accept{}, &wire.Answer{Refusal: strings.Repeat("x", wire.MaxText)},
	} {
		b, err := wire.Encode(m)
		require.NoError(t, err)
		total += len(b)
	}
	require.LessOrEqual(t, total, 1<<10)
}

func TestText(t *testing.T) {
	require.Equal(t, "short", wire.Text(errors.New("short")))
	require.Equal(t, strings.Repeat("x", wire.MaxText), wire.Text(errors.New(strings.Repeat("x", wire.MaxText))))
	for shift := range 3 {
		text := wire.Text(errors.New(strings.Repeat("x", shift) + strings.Repeat("€", wire.MaxText)))
		require.LessOrEqual(t, len(text), wire.MaxText)
		require.True(t, utf8.ValidString(text))
		require.True(t, strings.HasSuffix(text, "€…"))
	}
}

func TestPrintable(t *testing.T) {
	for text, shown := range map[string]string{
		"a file (1).tar":    "a file (1).tar",
		"größe \\ \"x\"":    "größe \\ \"x\"",
		"a\x1b[2Jb":         `"a\x1b[2Jb"`,
		"a\nb":              `"a\nb"`,
		"a\u202egpj.exe":    `"a\u202egpj.exe"`,
		"not UTF-8: \xff":   `"not UTF-8: \xff"`,
		"carriage\rreturn":  `"carriage\rreturn"`,
		"zero\u200bwidth":   `"zero\u200bwidth"`,
		"replaced \ufffd":   `"replaced ` + "\ufffd" + `"`,
		"byte order \ufeff": `"byte order \ufeff"`,
	} {
		require.Equal(t, shown, wire.Printable(text))
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range messages() {
		b, err := wire.Encode(m)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := wire.Parse(b)
		if err != nil {
			return
		}
		again, err := wire.Encode(m)
		require.NoError(t, err)
		back, err := wire.Parse(again)
		require.NoError(t, err)
		require.Equal(t, m, back)
	})
}
