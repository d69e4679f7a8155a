module github.com/weftrdma/weft/kvindex/bench

go 1.26.0

require (
	github.com/google/btree v1.1.3
	github.com/tidwall/btree v1.8.2
	github.com/weftrdma/weft v0.0.0
)

replace github.com/weftrdma/weft => ../..
