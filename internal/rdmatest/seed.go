package rdmatest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// seedVariable names the environment variable that replays a test.
const seedVariable = "WEFT_SEED"

// Seed returns the seed of a test that draws random numbers, never 0: that of the environment variable WEFT_SEED, or a new
// one. The log, which is shown when the test fails, says how to replay it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64() | 1
	if text := os.Getenv(seedVariable); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil || given == 0 {
			t.Fatalf("%s is %q, not a number from 1 to 2^64-1", seedVariable, text)
		}
		seed = given
	}
	t.Logf("%s=%d replays this", seedVariable, seed)
	return seed
}
