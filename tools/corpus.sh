#!/usr/bin/env bash
# Fuzzes every target for a while and keeps a few of the small inputs that reached something new, for the ordinary tests: each of
# them is run by go test from then on. tools/corpus.sh [seconds for each target, 0 for what is there
# already] [inputs for each target]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-5} inputs=${2:-6}
cache=$(go env GOCACHE)/fuzz # where go test keeps what it finds
for pkg in $(go list ./...); do
	dir=$(go list -f '{{.Dir}}' "$pkg")
	# What walks a model by a seed alone says nothing to a reader, and each input takes long.
	for target in $(cat "$dir"/*_test.go 2>/dev/null | awk '/^func Fuzz/ {name=$2; sub(/\(.*/, "", name)} /f\.Fuzz\(func\(/ && name != "" {if (!/seed uint64\)/) print name; name=""}'); do
		echo "$pkg $target"
		if [ "$seconds" -gt 0 ]; then
			go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 10x "$pkg" >/dev/null
		fi
		[ -d "$cache/$pkg/$target" ] || continue
		mkdir -p "$dir/testdata/fuzz/$target"
		find "$cache/$pkg/$target" -type f -size -2k -printf '%s %p\n' | sort -n | awk '{print $2}' |
			awk -v n="$inputs" '{all[NR]=$0} END {step=(NR>n)?NR/n:1; for (i=1; i<=NR && i/step<=n; i+=step) print all[int(i)]}' |
			xargs -r -I{} cp {} "$dir/testdata/fuzz/$target/"
	done
done
