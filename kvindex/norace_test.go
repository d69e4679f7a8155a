//go:build !race

package kvindex

// looks is how often TestSeekBesideSet looks.
const looks = 1_500_000
