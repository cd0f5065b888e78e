# make help lists what there is.

# The real kube-apiserver and etcd for the end-to-end tests, and kubectl for these and for the manifests. Outside of the
# checkout, so that every checkout has them.
ENVTEST_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/routesrv/envtest
# The conformance cases of the data client, where they are at hand.
ROUTESRV_CONFORMANCE_DIR ?= $(wildcard $(abspath ../shared/conformance/kubernetes))
# More random clusters than those in conformance/testdata, where they are at hand.
ROUTESRV_DIFFERENTIAL_DIR ?= $(wildcard $(abspath ../shared/conformance/differential))

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null)
FUZZTIME   ?= 30s

export ROUTESRV_CONFORMANCE_DIR ROUTESRV_DIFFERENTIAL_DIR

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: ## build the binaries into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/ ./cmd/...

# A folder that is kept has every version that was ever built into it: make site SITE=FOLDER VERSION=v0.2.0
SITE ?= dist/site
.PHONY: site
site: ## build the documents as a site with search and versions (SITE=dist/site; needs mkdocs and mkdocs-material)
	go run ./hack/site -out "$(SITE)" -version "$(VERSION)"
	@echo "To read it: python3 -m http.server -d $(SITE) 8000, then http://127.0.0.1:8000"

.PHONY: image
image: ## write the container image into dist/image, an OCI layout for amd64 and arm64; needs no Docker
	@rm -rf dist/image
	VERSION=$(VERSION) go run ./hack/release -image -out dist/image
	@echo "dist/image has the image $(VERSION). To a registry: skopeo copy --all oci:dist/image:$(VERSION) docker://NAME:$(VERSION)"
	@echo "To this machine: podman pull oci:dist/image:$(VERSION)"

##@ Check

.PHONY: check
check: format vet lint docs-check test ## what CI runs

.PHONY: format
format: ## fail if a file is not gofmt-formatted
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "not formatted (gofmt -w):"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## run go vet
	go vet ./...

.PHONY: lint
lint: ## run staticcheck
	go run $(STATICCHECK) ./...

.PHONY: docs-check
docs-check: ## fail if a generated reference or picture is not what the code says, or a plot not what was measured
	go run ./hack/docs -check
	go run ./hack/dashboard -check
	go run ./hack/pictures -check
	go run ./hack/scale -check

# Packages that start no goroutine, neither in their code nor in their tests, are tested without the race detector, which makes them
# six times as slow and has nothing to find there. Package internal/arch holds the list.
SEQUENTIAL = ./compile ./conformance ./explain ./guard ./rollout ./shadowdiff ./kube ./internal/catalogue ./robustness/validate \
	./robustness/timeline ./internal/source/cluster/internal/decode

# Four packages at a time: the end-to-end tests mostly wait, and others can use the processors meanwhile. What takes longest
# begins first.
.PHONY: test
test: assets ## run all tests: unit, conformance, and end to end on a real kube-apiserver (builds it when absent)
	{ KUBEBUILDER_ASSETS=$(ENVTEST_DIR) go test -race -shuffle=on -timeout 30m -p 4 -json ./e2e ./e2e/manifests ./internal/release \
		./robustness/plants ./internal/server ./dataplane ./robustness ./robustness/found ./internal/migrate ./deploy ./etagcache \
		$$(go list ./... | grep -vxF -e "$$(go list $(SEQUENTIAL))") || echo '{"Action":"fail","Package":"go test -race"}'; \
	go test -shuffle=on -timeout 30m -json $(SEQUENTIAL) || echo '{"Action":"fail","Package":"go test"}'; } | go run ./hack/testcount

.PHONY: unit
unit: ## run the tests that need no API server and build no release
	go test -shuffle=on $$(go list ./... | grep -v -e '/e2e$$' -e /e2e/ -e /internal/release)

.PHONY: e2e
e2e: assets ## run the end-to-end tests only
	KUBEBUILDER_ASSETS=$(ENVTEST_DIR) go test ./e2e/... -v -timeout 30m

.PHONY: assets
assets: ## build kube-apiserver, etcd and kubectl for the tests (about five minutes the first time)
	@hack/envtest-assets.sh "$(ENVTEST_DIR)"

##@ Rewrite (read the diff)

.PHONY: golden
golden: ## rewrite the golden cases; read the diff
	go test ./compile -run Golden -update
	go test ./deploy -run Golden -update

.PHONY: docs
docs: ## write the generated references and pictures
	go run ./hack/docs
	go run ./hack/dashboard
	go run ./hack/pictures

.PHONY: screenshots
screenshots: build ## make the pictures of docs/console.md again (two minutes; needs chromium)
	go run ./hack/screenshots -bin bin -out docs/images

##@ Measure

.PHONY: bench
bench: ## run the benchmarks of docs/performance.md
	go test -run '^$$' -bench 'Parse|Print' -benchmem -cpu 1 ./eskip
	go test -run '^$$' -bench Read -benchmem ./internal/source/cluster/...
	go test -run '^$$' -bench . -benchmem ./compile ./etagcache ./dataplane
	go test -run '^$$' -bench Diff -benchmem -cpu 1 ./shadowdiff
	go test -run '^$$' -bench . -benchtime 10x -timeout 30m ./bench

RECORD ?=
.PHONY: bench-guard
bench-guard: ## compare what the benchmarks of the main figures measure with bench/recorded.txt (six minutes; RECORD=-record records)
	@(go test -run '^$$' -bench 'Calibration|FirstTable$$|FromLastKnownGood|PollOneChanged|ChangeToFleet|DataPlane$$' -benchtime 5x -timeout 60m ./bench; \
		go test -run '^$$' -bench Calibration -benchtime 5x ./bench) | tee /dev/stderr | go run ./hack/benchguard $(RECORD)

.PHONY: scale
scale: ## measure docs/scale.md at all sizes (most of an hour on a quiet machine)
	for factor in 0.1 1 3 10; do \
		ROUTESRV_BENCH_FACTOR=$$factor go test -run '^$$' -bench 'FirstTable|PollUnchanged|PollOneChanged|ChangeToFleet|Streams|TableSize' \
			-benchtime 3x -timeout 60m ./bench | tee /dev/stderr | go run ./hack/scale -record $$factor || exit 1; \
	done
	go test -run '^$$' -bench Largest -benchtime 5x -timeout 60m ./bench | tee /dev/stderr | go run ./hack/scale -record 1
	go run ./hack/scale

.PHONY: abuse
abuse: ## measure what a well-behaved client notices of 500 to 10,000 others that misbehave (a quiet machine, two minutes)
	ROUTESRV_ABUSE=full go test ./robustness/abuse -v -count 1 -timeout 30m

##@ Look for faults (minutes to hours)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	@for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg || exit 1; \
		done; \
	done

.PHONY: corpus
corpus: ## fuzz every target for a while, and keep some of what is new for the ordinary tests
	hack/corpus.sh 10 6

DURATION ?=
SEED     ?= 0
# Processes, clients and validators share the machine: how long it takes beside the runs depends on it.
.PHONY: robustness
robustness: ## run fleets under faults and hold what clients received against the guarantees (DURATION=10m SEED=1)
	go test -race ./robustness -run 'TestGuaranteesHold$$' -count 1 -v -timeout 24h -args -for $(or $(DURATION),10m) -seed $(SEED)

.PHONY: robustness-real
robustness-real: assets ## the same on a real kube-apiserver and etcd, with fewer changes (DURATION=10m SEED=1)
	KUBEBUILDER_ASSETS=$(ENVTEST_DIR) go test -race ./robustness -run TestGuaranteesHoldOnARealAPI -count 1 -v -timeout 24h -args -for $(or $(DURATION),10m) -seed $(SEED)

.PHONY: soak
soak: ## the same for an hour with a table of full size and 300 clients, and see that nothing grows (DURATION=1h SEED=1)
	go test ./robustness -run 'TestGuaranteesHold$$' -count 1 -v -timeout 24h -args -soak $(or $(DURATION),1h) -seed $(SEED)

MUTATE ?=
.PHONY: mutate
mutate: ## change the code and see whether the tests notice (MUTATE='-packages guard -n 60 -goal 90', or -help)
	@go run ./hack/mutate $(MUTATE)

##@ Release (docs/release.md)

# KEY signs the release: a file, or NAME://KEY, which a program sigstore-kms-NAME serves. IMAGE is the repository that the image will
# be pushed to.
SIGN = case "$(KEY)" in awskms://*|azurekms://*|gcpkms://*|hashivault://*) $(MAKE) --no-print-directory kms || exit 1;; esac; \
	PATH="$(CURDIR)/bin/kms:$$PATH" go run ./hack/publish -sign -key "$(KEY)" -image "$(IMAGE)" dist

.PHONY: release
release: ## write a release into dist/ (VERSION=v0.1.0), signed with KEY=cosign.key IMAGE=registry.example.org/routesrv
	@if [ -n "$(KEY)" ] && [ -z "$(IMAGE)" ]; then echo "make release: KEY needs IMAGE, the repository of the image: it is part of what is signed" >&2; exit 2; fi
	@rm -rf dist
	VERSION=$(VERSION) go run ./hack/release -out dist
	@if [ -n "$(KEY)" ]; then $(SIGN); fi
	@cat dist/SHA256SUMS

.PHONY: sign
sign: ## sign the release in dist/ (KEY=cosign.key IMAGE=registry.example.org/routesrv)
	@$(SIGN)

.PHONY: kms
kms: ## build the programs that lend keys of AWS, Azure, Google Cloud and Vault into bin/kms (make release calls it for such a KEY)
	go build -C hack/kms -o "$(CURDIR)/bin/kms/sigstore-kms-awskms" .
	@cd bin/kms && for name in azurekms gcpkms hashivault; do ln -f sigstore-kms-awskms sigstore-kms-$$name; done

.PHONY: publish
publish: ## push image, manifests and signatures of dist/ to a registry (IMAGE=registry.example.org/routesrv)
	go run ./hack/publish -push -image "$(IMAGE)" dist

.PHONY: release-check
release-check: ## build a release twice, the second time from nothing, and compare; run the image; build the Dockerfile (needs buildah); test the keys of services
	go vet -C hack/kms ./... && go test -C hack/kms ./... -count 1
	go test ./internal/release -count 1 -timeout 60m -v -args -full
