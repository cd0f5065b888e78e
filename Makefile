# make help lists what there is.

# The real kube-apiserver and etcd for the end-to-end tests, and kubectl for these and for the manifests. Outside of the
# checkout, so that every checkout has them.
ENVTEST_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/routesrv/envtest
# The conformance cases of the data client, where they are at hand.
ROUTESRV_CONFORMANCE_DIR ?= $(wildcard $(abspath ../shared/conformance/kubernetes))
# More random clusters than those in test/conformance/testdata, where they are at hand.
ROUTESRV_DIFFERENTIAL_DIR ?= $(wildcard $(abspath ../shared/conformance/differential))

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOTESTSUM   = gotest.tools/gotestsum@v1.13.0
BENCHSTAT   = golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
GREMLINS    = github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null)
FUZZTIME   ?= 30s

# How everything is compiled, releases too: without paths of this machine, and without what only a debugger reads. Stack traces and profiles
# need nothing of it, and programs are a third smaller and compiled faster.
LEAN = -trimpath -gcflags=all=-dwarf=false

# The three modules: what users import and run, what tests it from outside, and what makes documents and releases (go.work).
PACKAGES = ./... ./test/... ./tools/...

export ROUTESRV_CONFORMANCE_DIR ROUTESRV_DIFFERENTIAL_DIR

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: ## build the binaries into bin/
	GOWORK=off CGO_ENABLED=0 go build $(LEAN) -ldflags "-s -X main.version=$(VERSION)" -o bin/ ./cmd/...

.PHONY: site
site: ## build the documents as a site with search in dist/site (needs mkdocs and mkdocs-material)
	mkdocs build

# With buildah, which needs no daemon. The time of the commit instead of that of the build gives the same image again.
IMAGE ?= localhost/routesrv
.PHONY: image
image: ## build the container image IMAGE:VERSION for amd64 and arm64 (needs buildah; to push it: buildah manifest push --all NAME docker://NAME)
	buildah build --platform linux/amd64,linux/arm64 --timestamp "$$(git log -1 --format=%ct)" --manifest "$(IMAGE):$(VERSION)" \
		--build-arg VERSION="$(VERSION)" --build-arg REVISION="$$(git rev-parse HEAD)" --build-arg CREATED="$$(git log -1 --format=%cI)" .

##@ Check

# Without the race detector everything is compiled as for a release: once for vet, lint and the tests.
vet lint docs-check test: export CGO_ENABLED = 0
vet lint docs-check test: export GOFLAGS := $(shell go env GOFLAGS) $(LEAN)

# The tests wait a lot: for a real kube-apiserver, for proxies. The others use the processors meanwhile.
.PHONY: check
check: format ## what CI runs: format, vet, lint, docs-check and test
	@$(MAKE) --no-print-directory -j2 static test

.PHONY: static
static:
	@$(MAKE) --no-print-directory vet && $(MAKE) --no-print-directory lint && $(MAKE) --no-print-directory docs-check

.PHONY: format
format: ## fail if a file is not gofmt-formatted
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "not formatted (gofmt -w):"; echo "$$files"; exit 1; fi

# A garbage collector that comes less often halves the time of staticcheck.
.PHONY: vet
vet: ## run go vet
	GOGC=400 go vet $(PACKAGES)

.PHONY: lint
lint: ## run staticcheck
	GOGC=400 go run $(STATICCHECK) $(PACKAGES)

.PHONY: docs-check
docs-check: ## fail if a generated reference is not what the code says, a document quotes what does not exist, a link leads nowhere, or texts read as translated
	go run ./tools/docs -check
	@if command -v mkdocs >/dev/null; then mkdocs build --quiet; \
	elif [ "$$CI" = true ]; then echo "mkdocs is missing: apt-get install mkdocs mkdocs-material" >&2; exit 1; \
	else echo "SKIP the site: mkdocs is missing (apt-get install mkdocs mkdocs-material)"; fi

# See tools/test.sh.
SEQUENTIAL = ./compile ./compile/rules ./test/conformance ./explain ./guard ./rollout ./shadowdiff ./kube ./catalogue ./test/robustness/validate \
	./source/cluster/internal/decode ./match/report ./publish/history ./explain/takeover ./internal/routeid ./source/manifests \
	./api ./test/scale
RUNNERS = ./test/e2e ./test/e2e/manifests ./test/robustness ./test/programs ./test/proxy ./test/deploy ./test/robustness/abuse ./test/kubelet ./test/bench

# Where CI is true no test may be skipped.
.PHONY: test
test: assets ## run all tests: unit, conformance, and end to end on a real kube-apiserver (builds it when absent)
	@events=$$(mktemp) && trap 'rm -f "$$events"' EXIT && export PACKAGES="$(PACKAGES)" SEQUENTIAL="$(SEQUENTIAL)" RUNNERS="$(RUNNERS)" KUBEBUILDER_ASSETS=$(ENVTEST_DIR) && \
	go run $(GOTESTSUM) --format pkgname --jsonfile "$$events" --raw-command -- tools/test.sh && \
	go run $(GOTESTSUM) tool slowest --jsonfile "$$events" --threshold 20s && \
	if [ "$$CI" = true ] && grep '"Action":"skip"' "$$events" | grep '"Test":'; then echo "where CI is true no test may be skipped" >&2; exit 1; fi

.PHONY: unit
unit: ## run the tests that need no API server
	go test -shuffle=on $$(go list $(PACKAGES) | grep -v /test/e2e)

.PHONY: e2e
e2e: assets ## run the end-to-end tests only
	KUBEBUILDER_ASSETS=$(ENVTEST_DIR) go test ./test/e2e/... -v -timeout 30m

.PHONY: assets
assets: ## build kube-apiserver, etcd and kubectl for the tests (about five minutes the first time)
	@tools/envtest-assets.sh "$(ENVTEST_DIR)"

##@ Rewrite (read the diff)

.PHONY: golden
golden: ## rewrite the golden cases; read the diff
	go test ./compile -run Golden -update
	go test ./test/deploy -run Golden -update

.PHONY: docs
docs: ## write the generated references and pictures
	go run ./tools/docs

.PHONY: screenshots
screenshots: build ## make the pictures of docs/debug/console.md again (two minutes; needs chromium and pngquant)
	unshare --map-root-user --uts sh -c 'hostname routesrv-5f6d7c8b9-x2x4v && go test ./test/screenshots -run TestScreenshots -v -args -out $(CURDIR)/docs/images'
	pngquant --force --ext .png 64 docs/images/*.png

##@ Measure

.PHONY: bench
bench: ## run the benchmarks of docs/internals/performance.md
	go test -run '^$$' -bench 'Parse|Print' -benchmem -cpu 1 ./eskip
	go test -run '^$$' -bench Read -benchmem ./test/source
	go test -run '^$$' -bench . -benchmem ./etagcache ./dataplane ./test/bench/compute
	go test -run '^$$' -bench Diff -benchmem -cpu 1 ./shadowdiff
	go test -run '^$$' -bench . -benchtime 10x -timeout 30m ./test/bench

BASE ?= HEAD~1
BENCH ?= FirstTable$$|FromLastKnownGood|ChangeToFleet|DataPlane$$
.PHONY: bench-compare
bench-compare: ## compare the main figures with those of the commit BASE, in turns (a quarter of an hour; BASE=v0.1.0 BENCH='Change$$')
	tools/bench-compare.sh "$(BASE)" '$(BENCH)' "go run $(BENCHSTAT)"

.PHONY: bench-process
bench-process: ## measure a whole route server beside that of the commit BASE (a quarter of an hour; ARGS='-modes watch -length 30s' for a part)
	go run ./test/bench/process -base "$(BASE)" $(ARGS)

.PHONY: scale
scale: ## measure the figures of docs/operate/sizing.md at all sizes (most of an hour on a quiet machine)
	for factor in 0.1 1 3 10; do \
		echo "factor $$factor"; \
		ROUTESRV_BENCH_FACTOR=$$factor go test -run '^$$' -bench 'FirstTable|PollUnchanged|ChangeToFleet|Streams|TableSize' \
			-benchtime 3x -timeout 60m ./test/bench || exit 1; \
		go run ./test/bench/process -factor $$factor -modes watch,json -states with || exit 1; \
	done
	go test -run '^$$' -bench Largest -benchtime 5x -timeout 60m ./test/bench

.PHONY: abuse
abuse: ## measure what a well-behaved client notices of 500 to 10,000 others that misbehave (a quiet machine, two minutes)
	ROUTESRV_ABUSE=full go test ./test/robustness/abuse -v -count 1 -timeout 30m

##@ Look for faults (minutes to hours)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	@for pkg in $$(go list $(PACKAGES)); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg || exit 1; \
		done; \
	done

.PHONY: corpus
corpus: ## fuzz every target for a while, and keep some of what is new for the ordinary tests
	tools/corpus.sh 10 6

DURATION ?=
SEED     ?= 0
# Processes, clients and validators share the machine: how long it takes beside the runs depends on it.
.PHONY: robustness
robustness: ## run fleets under faults and hold what clients received against the guarantees (DURATION=10m SEED=1)
	go test -race ./test/robustness -run 'TestGuaranteesHold$$' -count 1 -v -timeout 24h -args -for $(or $(DURATION),10m) -seed $(SEED)

.PHONY: soak
soak: ## the same for an hour with a table of full size and 300 clients, and see that nothing grows (DURATION=1h SEED=1)
	go test ./test/robustness -run 'TestGuaranteesHold$$' -count 1 -v -timeout 24h -args -soak $(or $(DURATION),1h) -seed $(SEED)

MUTATE ?= ./guard
.PHONY: mutate
mutate: ## change the code and see whether the tests of a package notice (MUTATE=./guard)
	go run $(GREMLINS) unleash --timeout-coefficient 10 $(MUTATE)

##@ Release (docs/operate/upgrade.md)

.PHONY: release
release: ## make the files of a release in dist, and publish nothing (needs goreleaser and syft)
	goreleaser release --snapshot --clean
