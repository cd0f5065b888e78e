#!/usr/bin/env bash
# Fuzzes every target for a while and keeps a few of the small inputs that reached something new, for the ordinary tests: each of
# them is run by go test from then on. Targets that walk a model by a seed are left out: a seed says nothing to a reader, and each
# takes long. hack/corpus.sh [seconds for each target] [inputs for each target]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-5} inputs=${2:-6}
cache=$(go env GOCACHE)/fuzz # where go test keeps what it finds
for pkg in $(go list ./...); do
	dir=$(go list -f '{{.Dir}}' "$pkg")
	for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
		if grep -qE "^func $target\(" -A40 "$dir"/*_test.go && grep -hE "f\.Fuzz\(func\(t \*testing\.T, seed uint64\)" "$dir"/*_test.go >/dev/null &&
			grep -hA40 "^func $target(" "$dir"/*_test.go | grep -m1 'f\.Fuzz(' | grep -q 'seed uint64)'; then
			continue
		fi
		echo "$pkg $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 10x "$pkg" >/dev/null
		[ -d "$cache/$pkg/$target" ] || continue
		mkdir -p "$dir/testdata/fuzz/$target"
		find "$cache/$pkg/$target" -type f -size -2k -printf '%s %p\n' | sort -n | awk '{print $2}' |
			awk -v n="$inputs" '{all[NR]=$0} END {step=(NR>n)?NR/n:1; for (i=1; i<=NR && i/step<=n; i+=step) print all[int(i)]}' |
			xargs -r -I{} cp {} "$dir/testdata/fuzz/$target/"
	done
done
