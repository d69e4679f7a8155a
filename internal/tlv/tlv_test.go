package tlv_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/tlv"
)

var format = tlv.Format{
	Name: "example", Magic: [4]byte{'T', 'E', 'S', 'T'}, Version: 2, MinVersion: 1,
	Known: []uint16{1, 2 | tlv.Required},
}

func message(fields ...any) []byte {
	b := format.Begin(nil)
	for i := 0; i < len(fields); i += 2 {
		b = tlv.AppendField(b, uint16(fields[i].(int)), []byte(fields[i+1].(string)))
	}
	return tlv.Finish(b)
}

func parse(b []byte) (map[uint16]string, error) {
	got := map[uint16]string{}
	err := format.Parse(b, func(typ uint16, value []byte) error {
		got[typ] = string(value)
		return nil
	})
	return got, err
}

func TestRoundTrip(t *testing.T) {
	got, err := parse(message(1, "one", 2|tlv.Required, ""))
	require.NoError(t, err)
	require.Equal(t, map[uint16]string{1: "one", 2 | tlv.Required: ""}, got)
}

func TestUnknownOptionalFieldIsPassedOver(t *testing.T) {
	got, err := parse(message(77, "later", 1, "one"))
	require.NoError(t, err)
	require.Equal(t, map[uint16]string{1: "one"}, got)
}

func TestNextVersionIsReadWhereItAllows(t *testing.T) {
	b := message(1, "one")
	b[4] = 9
	_, err := parse(b)
	require.NoError(t, err)
}

func TestRefused(t *testing.T) {
	patch := func(at int, value byte) []byte {
		b := message(1, "one")
		b[at] = value
		return b
	}
	long := message(1, "one")
	long = append(long, 0)
	trailing := message(1, "one")
	trailing = append(trailing, 0)
	binary.BigEndian.PutUint32(trailing[8:], uint32(len(trailing)))
	for name, tc := range map[string]struct {
		message []byte
		reason  string
	}{
		"empty":            {nil, "0 bytes are too few, the header has 12: it was cut off"},
		"short":            {message()[:11], "11 bytes are too few, the header has 12: it was cut off"},
		"magic":            {patch(0, 'X'), `starts with "XEST", not "TEST": it is something else`},
		"too new":          {patch(5, 3), "needs version 3, this is version 2"},
		"contradiction":    {patch(4, 0), "version 0 says that version 1 is needed"},
		"reserved":         {patch(7, 1), "reserved bytes are not zero"},
		"length":           {long, "says that it has 19 bytes, and has 20: it was cut off or changed"},
		"trailing":         {trailing, "1 bytes follow the last field"},
		"field too long":   {patch(15, 4), "field 0x1 says 4 bytes, 3 are left"},
		"unknown required": {message(5|tlv.Required, ""), "field 0x8005 must be understood and is not known to version 2"},
		"twice":            {message(1, "a", 1, "b"), "field 0x1 comes twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tc.message)
			var refused *tlv.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, tc.reason, refused.Reason)
			require.Equal(t, "example: "+tc.reason, err.Error())
		})
	}
}

func TestVisitErrorIsReturned(t *testing.T) {
	mine := errors.New("mine")
	err := format.Parse(message(1, ""), func(uint16, []byte) error { return mine })
	require.ErrorIs(t, err, mine)
}

func TestFields(t *testing.T) {
	table := tlv.Format{Name: "table", Magic: [4]byte{'T', 'E', 'S', 'T'}, Version: 1, MinVersion: 1,
		Known: []uint16{tlv.Required | 1, tlv.Required | 2, tlv.Required | 3, tlv.Required | 4, tlv.Required | 5, 6}}
	type values struct {
		one   uint8
		two   uint16
		four  uint32
		eight uint64
		two2  [2]byte
		text  string
	}
	read := func(b []byte) (v values, err error) {
		f := tlv.Fields{Format: &table}
		return v, f.Parse(b, func(typ uint16, value []byte) {
			switch typ &^ tlv.Required {
			case 1:
				v.one = f.Uint8(typ, value)
			case 2:
				v.two = f.Uint16(typ, value)
			case 3:
				v.four = f.Uint32(typ, value)
			case 4:
				v.eight = f.Uint64(typ, value)
			case 5:
				f.Copy(typ, v.two2[:], value)
			case 6:
				v.text = f.Text(typ, value, 3)
			}
		})
	}
	whole := tlv.AppendField(table.Begin(nil), tlv.Required|1, []byte{7})
	whole = tlv.AppendUint16(whole, tlv.Required|2, 0x1234)
	whole = tlv.AppendUint32(whole, tlv.Required|3, 0x12345678)
	whole = tlv.AppendUint64(whole, tlv.Required|4, 0x123456789abcdef0)
	missing := slices.Clone(whole)
	whole = tlv.AppendField(whole, tlv.Required|5, []byte("ab"))
	got, err := read(tlv.Finish(slices.Clone(whole)))
	require.NoError(t, err, "the text is optional")
	require.Equal(t, values{7, 0x1234, 0x12345678, 0x123456789abcdef0, [2]byte{'a', 'b'}, ""}, got)
	got, err = read(tlv.Finish(tlv.AppendField(slices.Clone(whole), 6, []byte("abc"))))
	require.NoError(t, err)
	require.Equal(t, "abc", got.text)

	for text, message := range map[string][]byte{
		"table: 4 of 5 fields are there":           missing,
		"table: field 0x8005 has 3 bytes, not 2":   tlv.AppendField(slices.Clone(missing), tlv.Required|5, []byte("abc")),
		"table: field 0x6 has 4 bytes, not 0 to 3": tlv.AppendField(slices.Clone(whole), 6, []byte("abcd")),
		"table: field 0x6 is no text":              tlv.AppendField(slices.Clone(whole), 6, []byte{0xff}),
		"table: field 0x8005 comes twice":          tlv.AppendField(slices.Clone(whole), tlv.Required|5, []byte("ab")),
	} {
		_, err := read(tlv.Finish(message))
		require.EqualError(t, err, text)
	}
}

func TestOversizedFieldPanics(t *testing.T) {
	require.Panics(t, func() { tlv.AppendField(nil, 1, make([]byte, tlv.MaxValue+1)) })
}

func FuzzParse(f *testing.F) {
	f.Add(message(1, "one", 2|tlv.Required, "two"))
	f.Add(message())
	f.Fuzz(func(t *testing.T, b []byte) {
		again := format.Begin(nil)
		err := format.Parse(b, func(typ uint16, value []byte) error {
			again = tlv.AppendField(again, typ, value)
			return nil
		})
		if err == nil { // what was accepted survives a second trip
			second := tlv.Finish(again)
			require.NoError(t, format.Parse(second, func(uint16, []byte) error { return nil }))
			require.LessOrEqual(t, len(second), len(b))
			require.True(t, bytes.HasPrefix(b, format.Magic[:]))
		}
	})
}
