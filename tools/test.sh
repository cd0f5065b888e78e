#!/usr/bin/env bash
# Runs all tests and prints them as gotestsum reads them (go test -json); make test calls it. Several packages at a time: the end-to-end
# tests mostly wait, and others can use the processors meanwhile. What takes longest begins first, and what runs without the race detector beside
# what runs with it.
#
#	PACKAGES     patterns of all packages
#	SEQUENTIAL   packages that start no goroutine, neither in their code nor in their tests, and are tested without the race detector,
#	             which makes them six times as slow and has nothing to find there
#	RUNNERS      packages whose tests run the programs, which the race detector watches where speed is not the question; what runs them, and
#	             asks them all the time, is faster without it
#
# Package test/arch holds the lists.
set -uo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The programs are built once for all packages that run them (test/programs).
export ROUTESRV_PROGRAMS=$dir
go build -ldflags=-s -o "$dir/plain/" ./cmd/... && CGO_ENABLED=1 go build -race -ldflags=-s -o "$dir/race/" ./cmd/... || exit 1

# Programs with planted faults; the other tests of the package run programs without them. They mostly wait.
go test -vet=off -timeout 30m -json -run 'TestPlanted' ./test/robustness > "$dir/planted.json" &
planted=$!

# Beside the other packages that run programs, so that both take about as long. The proxies of test/proxy mostly wait for their next retry, so
# all of its tests run at once.
beside_runners="./test/e2e/manifests ./test/robustness ./test/deploy ./test/kubelet"
proxies() {
	local failed=0
	go test -vet=off -shuffle=on -timeout 30m -p 1 -skip '^TestPlanted$' -json $beside_runners || failed=1
	go test -vet=off -shuffle=on -timeout 30m -parallel 16 -json ./test/proxy || failed=1
	return $failed
}
proxies > "$dir/proxy.json" &
proxy=$!

others() {
	local failed=0 others
	go test -vet=off -shuffle=on -timeout 30m -p 1 -json $SEQUENTIAL || failed=1
	# Simulations in files that the race detector leaves out (//go:build !race): it would exhaust itself, or make them six times as slow, and
	# watches the same code in the other tests.
	long=$(grep -rl --include='*_test.go' '^//go:build !race' .)
	names=$(sed -nE 's/^func ((Test|Fuzz)\w+)\(.*/\1/p' $long | paste -sd'|')
	go test -vet=off -shuffle=on -timeout 30m -p 2 -json -run "^($names)\$" $(dirname $long | sort -u) || failed=1
	others=$(go list $PACKAGES | grep -vxF -e "$(go list $SEQUENTIAL $RUNNERS)")
	# A garbage collector that comes less often saves a tenth.
	GOGC=400 CGO_ENABLED=1 go test -race -vet=off -shuffle=on -timeout 30m -p 2 -json ./dataplane ./test/sidecar ./test/source ./test/server ./test/model ./etagcache $others || failed=1
	return $failed
}
others > "$dir/others.json" &
beside=$!

go test -vet=off -shuffle=on -timeout 30m -p 1 -json $(printf '%s\n' $RUNNERS | grep -vxF "$(printf '%s\n' ./test/proxy $beside_runners)")
failed=$?
for job in $planted $proxy $beside; do
	wait $job || failed=1
done
cat "$dir/planted.json" "$dir/proxy.json" "$dir/others.json"
exit $failed
