package main

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// bytesValue is a flag of a number of bytes: 4096, 4KiB, 1.5GiB, 100MB.
type bytesValue int64

// units are those that a number of bytes may have; the first of each size is the one that is shown.
var units = []struct {
	name string
	size int64
}{
	{"EiB", 1 << 60}, {"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"EB", 1e18}, {"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// String writes the number in the largest unit that it is a multiple of.
func (v *bytesValue) String() string {
	for _, u := range units[:6] {
		if n := int64(*v); n != 0 && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprint(int64(*v))
}

// Type names the kind of value in a command's help.
func (v *bytesValue) Type() string { return "size" }

// Set reads a number of bytes.
func (v *bytesValue) Set(text string) error {
	number, unit := strings.TrimSpace(text), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, ok := new(big.Rat).SetString(number)
	if !ok || strings.ContainsAny(number, "/eEpPxX_") || n.Sign() < 0 {
		return errors.New("a size is a number with or without one of the units B, KiB, MiB, GiB, TiB, kB, MB, GB, TB")
	}
	n.Mul(n, new(big.Rat).SetInt64(unit))
	whole := new(big.Int).Quo(n.Num(), n.Denom())
	if !whole.IsInt64() || whole.Int64() == math.MaxInt64 {
		return errors.New("a size is less than 8EiB")
	}
	*v = bytesValue(whole.Int64())
	return nil
}

// formatBytes writes a number of bytes for people: "52.4 MiB".
func formatBytes(n float64) string {
	for i := 5; i >= 0; i-- { // from KiB on up
		if u := units[i]; n >= float64(u.size) && (i == 0 || n < float64(units[i-1].size)) {
			return fmt.Sprintf("%.1f %s", n/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%.0f B", n)
}
