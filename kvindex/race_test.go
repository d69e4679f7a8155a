//go:build race

package kvindex

// looks is how often TestSeekBesideSet looks: the detector makes each of them take ten times as long.
const looks = 150_000
