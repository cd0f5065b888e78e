#!/usr/bin/env bash
# Runs benchmarks of a commit and of this checkout in turns, and prints what benchstat makes of them.
# Usage: bench-compare.sh COMMIT 'PATTERN' 'benchstat command'
set -euo pipefail
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/base" 2>/dev/null || true; rm -rf "$dir"' EXIT
git worktree add --quiet --detach "$dir/base" "$1"
for round in 1 2 3 4 5 6; do
	echo "round $round of 6" >&2
	(cd "$dir/base" && go test -run '^$' -bench "$2" -benchtime 2x -timeout 60m ./test/bench) >> "$dir/before.txt"
	go test -run '^$' -bench "$2" -benchtime 2x -timeout 60m ./test/bench >> "$dir/after.txt"
done
$3 "$dir/before.txt" "$dir/after.txt"
