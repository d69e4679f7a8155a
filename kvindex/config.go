package kvindex

import "fmt"

// Search says how nodes are searched.
type Search uint8

const (
	SearchAuto    Search = iota // a probe of the keys decides, per index at load and per node at retraining
	SearchLearned               // a line narrows every search to 2ε+2 keys
	SearchPlain                 // nodes hold up to their capacity and are searched whole
)

// Duplicates says what loading does with a key that comes twice.
type Duplicates uint8

const (
	DuplicatesReject   Duplicates = iota // loading fails and names the key
	DuplicatesLastWins                   // the value that came last stays
)

// Limits of Config.
const (
	maxSegments = 7  // segments of an inner node: their first keys and a header fill one cache line
	maxBuffer   = 16 // entries of an insert buffer
	maxEpsilon  = 56 // 2ε+2 keys have to be fewer than a node's for a line to help
)

// Config chooses the shape of an index. The zero value is the default given with each field; small values make small
// trees split early, which is what tests want.
type Config struct {
	LeafEpsilon    int // error bound of a leaf's line, in keys: 1 to 56; 0 lets the probe take 8, 16 or 32
	InnerEpsilon   int // error bound of an inner segment's line, in children: 1 to 56; 0 stands for 4
	LeafCapacity   int // keys in a leaf: 4 to 128; 0 stands for 128
	NodeSegments   int // segments in an inner node: 2 to 7; 0 stands for 7
	BufferCapacity int // writes that a leaf takes before it is retrained: 1 to 16; 0 stands for 16
	Search         Search
	Duplicates     Duplicates
}

// withDefaults replaces zeros.
func (c Config) withDefaults() Config {
	for _, f := range []struct {
		field *int
		value int
	}{{&c.InnerEpsilon, 4}, {&c.LeafCapacity, maxCapacity}, {&c.NodeSegments, maxSegments},
		{&c.BufferCapacity, maxBuffer}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return c
}

// validate checks a Config that has its defaults.
func (c Config) validate() error {
	for _, f := range []struct {
		name               string
		value, least, most int
	}{
		{"LeafEpsilon", c.LeafEpsilon, 0, maxEpsilon},
		{"InnerEpsilon", c.InnerEpsilon, 1, maxEpsilon},
		{"LeafCapacity", c.LeafCapacity, 4, maxCapacity},
		{"NodeSegments", c.NodeSegments, 2, maxSegments},
		{"BufferCapacity", c.BufferCapacity, 1, maxBuffer},
		{"Search", int(c.Search), int(SearchAuto), int(SearchPlain)},
		{"Duplicates", int(c.Duplicates), int(DuplicatesReject), int(DuplicatesLastWins)},
	} {
		if f.value < f.least || f.value > f.most {
			return fmt.Errorf("kvindex: Config.%s is %d: %d to %d are possible", f.name, f.value, f.least, f.most)
		}
	}
	return nil
}

// leafTrainer returns how leaves are cut.
func (c Config) leafTrainer() trainer {
	t := trainer{eps: c.LeafEpsilon, widest: c.LeafEpsilon, capacity: c.LeafCapacity, search: c.Search}
	if c.LeafEpsilon == 0 {
		t.eps, t.widest = 8, 32
	}
	return t
}

// innerTrainer returns how the segments of inner nodes are cut.
func (c Config) innerTrainer() trainer {
	return trainer{eps: c.InnerEpsilon, widest: c.InnerEpsilon, capacity: c.LeafCapacity, search: c.Search}
}
