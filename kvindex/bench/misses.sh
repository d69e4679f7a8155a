#!/bin/sh
# misses.sh SET [CONTENDERS], such as uniform10M 'put/kvindex put/google': lines and cache misses an operation on a key set,
# as valgrind's cachegrind counts them (there are virtual machines without performance counters): first-level misses are the
# lines that an operation touches and that are not in 32 KB; then those that are not in 1 MB, the second level, and not in
# 8 MB, a share of the third. Prefetches are no accesses. The difference of two runs leaves the building of the tree out.
set -e
cd "$(dirname "$0")"
bench=$(mktemp)
trap 'rm -f "$bench"' EXIT
CGO_ENABLED=0 go build -o "$bench" .
count() { # contender, probes, last level: first-level misses, last-level misses, instructions
	GOMAXPROCS=1 valgrind --tool=cachegrind --cache-sim=yes --cachegrind-out-file=/dev/null --D1=32768,8,64 --LL="$3" \
		"$bench" -sets "$set" -once "$1" -probes "$2" 2>&1 |
		sed -n 's/,//g; s/.*I *refs: *\([0-9]*\).*/i \1/p; s/.*D1 *misses: *\([0-9]*\).*/d \1/p; s/.*LLd misses: *\([0-9]*\).*/l \1/p'
}
set=$1
for what in ${2:-get/kvindex get/google get/tidwall batch64/kvindex scan10/kvindex scan10/google scan10/tidwall \
	put/kvindex put/google put/tidwall}; do
	case $what-$set in put/*10M) n=10000000 ;; put/*) n=1000000 ;; *) n=200000 ;; esac # puts: from empty to all of the set
	for level in 1048576,8,64 8388608,16,64; do
		{ count "$what" 0 $level; count "$what" $n $level; } | awk -v what="$what" -v n=$n -v level=${level%%,*} '
			{ if ($1 in first) { printf "%s%s %.2f", sep, $1, ($2 - first[$1]) / n; sep = ", " } else first[$1] = $2 }
			END { print "  an operation of " what ", last level of " level " bytes" }'
	done
done
