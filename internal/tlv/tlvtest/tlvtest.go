// Package tlvtest has the tests that every wire format passes.
package tlvtest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weftrdma/weft/internal/tlv"
)

// Codec writes and reads one kind of message.
type Codec[M any] struct {
	Append func(b []byte, m M) []byte
	Parse  func(b []byte) (M, error)
}

// Golden checks that a message is written as the bytes of the file under testdata/wire, such as v1/address.golden, which never change,
// that reading them gives the message, and that they are no more than most.
func (c Codec[M]) Golden(t *testing.T, name string, m M, most int) {
	t.Helper()
	want, b := Read(t, name), c.Append(nil, m)
	if !bytes.Equal(want, b) {
		t.Fatalf("%s:\n%x, and is written as\n%x", name, want, b)
	}
	got, err := c.Parse(b)
	if err != nil || !reflect.DeepEqual(m, got) {
		t.Fatalf("%s: read as %+v (%v), not %+v", name, got, err, m)
	}
	if len(b) > most {
		t.Fatalf("%s: %d bytes, more than %d", name, len(b), most)
	}
}

// Read returns the bytes of a golden file: hexadecimal, with blanks and lines as one likes.
func Read(t *testing.T, name string) []byte {
	t.Helper()
	root := "."
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root = filepath.Join("..", root); len(root) > 100 {
			t.Fatal("no go.mod above this folder")
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "testdata", "wire", name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Fields checks that a whole message is refused without any of the format's fields that are required, and with one that is a
// byte longer, unless it is among those that may be.
func (c Codec[M]) Fields(t *testing.T, format *tlv.Format, m M, variable ...uint16) {
	t.Helper()
	whole := c.Append(nil, m)
	for _, field := range format.Known {
		without, longer := format.Begin(nil), format.Begin(nil)
		if err := format.Parse(whole, func(typ uint16, v []byte) error {
			if typ != field {
				without = tlv.AppendField(without, typ, v)
				longer = tlv.AppendField(longer, typ, v)
			} else {
				longer = tlv.AppendField(longer, typ, append(bytes.Clone(v), 0))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_, err := c.Parse(tlv.Finish(without))
		if field&tlv.Required == 0 {
			if err != nil {
				t.Errorf("%s is refused without field %#x, which is optional: %v", format.Name, field, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "fields are there") {
			t.Errorf("%s without field %#x: %v", format.Name, field, err)
		}
		if _, err := c.Parse(tlv.Finish(longer)); err == nil && !slices.Contains(variable, field) {
			t.Errorf("%s takes a longer field %#x", format.Name, field)
		}
	}
}

// Refused checks that a message that says something impossible is refused for that reason.
func (c Codec[M]) Refused(t *testing.T, m M, reason string) {
	t.Helper()
	_, err := c.Parse(c.Append(nil, m))
	if refused := (*tlv.Error)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), reason) {
		t.Fatalf("%+v is refused with %v, not with %q", m, err, reason)
	}
}

// Fuzz checks that whatever can be read is written as something that reads the same.
func (c Codec[M]) Fuzz(f *testing.F, seed M) {
	f.Add(c.Append(nil, seed))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := c.Parse(b)
		if err != nil {
			return
		}
		again, err := c.Parse(c.Append(nil, m))
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v is read back as %+v (%v)", m, again, err)
		}
	})
}
