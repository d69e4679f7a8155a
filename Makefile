# Weft's targets. None of them is needed to build the library: `go build` does that, with gcc and libibverbs-dev.

# How often and which device tests run: make test-rxe COUNT=10 RUN=TestWrite
COUNT ?= 1
RUN ?= .
# What test-hw must not skip, and the build tags of what it tests: make test-hw WEFT_REQUIRE=verbs TAGS=efa
WEFT_REQUIRE ?= verbs
TAGS ?=
# How long make soak-kvindex goes on, and what is given to it or to make bench-kvindex.
SOAK ?= 10m
ARGS ?=

# Sources that are tracked or about to be; what .gitignore names is nobody's style to check.
sources = git ls-files -z --cached --others --exclude-standard --
tool = go tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.PHONY: help deps demo test attack lint fmt fmt-check csrc cross downstream test-rxe soak soak-rxe soak-fabric rxe-shell test-rxe-two-hosts test-docker \
  test-fabric2 test-fresh bench-rxe bench-engine-rxe bench-fabric bench-weft bench-kvindex soak-kvindex mutants test-hw api-coverage

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## Install the Debian packages that are missing (with sudo when not root)
	@scripts/deps.sh

demo: deps ## Move real files between two processes by RDMA and verify them
	docker/rxe/demo.sh

test: deps ## The unit tests, with libfabric over tcp, then the device tests on soft-RoCE
	@echo 'unit tier: all tests that need no RDMA device, with the race detector (about 4 minutes on an idle machine)'
	WEFT_REQUIRE=fabric go test -race -timeout="$$(scripts/scaled.sh 900)s" ./...
	docker/rxe/test.sh

# What the cgo files alone use is unused without them (U1000).
lint: deps ## golangci-lint on this platform, staticcheck on the one without bindings
	$(tool) golangci-lint run
	CGO_ENABLED=0 $(tool) staticcheck -checks inherit,-U1000 ./...

fmt: deps ## Format the Go and C sources
	$(sources) '*.go' | xargs -0 gofmt -w
	$(sources) '*.c' '*.h' | xargs -0 clang-format -i

fmt-check: deps ## Fail where fmt would change something
	@$(sources) '*.go' | xargs -0 gofmt -d | (! grep .)
	@$(sources) '*.c' '*.h' | xargs -0 clang-format --dry-run -Werror

csrc: deps ## The C shims with every warning an error, and their tests under ASan and UBSan
	scripts/csrc.sh

cross: ## Build and vet for every platform, without cgo
	scripts/cross.sh

downstream: deps ## Build a module that requires this one: from the module cache, and vendored
	scripts/downstream.sh

test-rxe: deps ## The device tests on soft-RoCE; COUNT= and RUN= as for go test
	COUNT='$(COUNT)' RUN='$(RUN)' docker/rxe/test.sh

attack: deps ## Attack weft recv for a minute, on the loopback: floods, hostile bytes, forged, replayed and guessed messages and keys
	WEFT_REQUIRE=fabric go test -count=1 -timeout=10m -v -run='^TestAttack$$' ./cmd/weft -attack=40s

soak-rxe: deps ## The rail suite on soft-RoCE with 100 kills and 1,000 connects; docs/notes/testing.md has its output
	docker/rxe/soak.sh

soak-fabric: deps ## The rail suite over tcp, natively, with 100 kills and 1,000 connects; docs/notes/testing.md has its output
	WEFT_SOAK=1 WEFT_REQUIRE=fabric go test -count=1 -timeout=40m -v -run='^TestConformance$$' ./transferengine/fabricrail

rxe-shell: deps ## A shell where there is a soft-RoCE device
	docker/rxe/shell.sh

test-rxe-two-hosts: deps ## Two soft-RoCE machines on a virtual network, one of them killed
	docker/rxe/two-hosts.sh

test-docker: deps ## The device tests in a container without privileges
	docker/test.sh

test-fabric2: deps ## fabric with the headers and the library of libfabric 2.x, in a root of Debian 13 (as root)
	scripts/fabric2.sh

test-fresh: deps ## `make demo` and `make test` in a bare Debian root that has only Go, git and make (as root)
	scripts/fresh.sh

bench-rxe: deps ## Weft against perftest on soft-RoCE, in one boot
	docker/rxe/bench.sh

bench-engine-rxe: deps ## The engine against the binding on soft-RoCE, in one boot
	docker/rxe/bench-engine.sh

bench-fabric: deps ## fabric against the same calls from C, and beside other programs; PARTS= of it
	scripts/bench-fabric.sh $(PARTS)

bench-weft: deps ## weft send and recv beside socat, rsync and tar, over tcp; PARTS= of it
	scripts/bench-weft.sh $(PARTS)

bench-kvindex: deps ## The index against B-trees and binary search, interleaved; ARGS='-sets uniform1M -run get,put'
	cd kvindex/bench && go vet . && go run . $(ARGS)

soak-kvindex: deps ## The index against a reference for SOAK= (10m); ARGS='-soak.seed 7' repeats a run
	go test -count=1 -timeout=0 -v ./kvindex -soak=$(SOAK) $(ARGS)

soak: soak-fabric soak-rxe soak-kvindex mutants ## All of what takes too long for every day: several hours

mutants: deps ## Plant each fault of testdata/mutants and show that a test finds it; ARGS='verbs' or ARGS='-run PSN'
	WEFT_REQUIRE=fabric go run ./internal/mutants $(ARGS)

test-hw: deps ## All tests on this machine's own devices; WEFT_REQUIRE= and TAGS=
	WEFT_REQUIRE='$(WEFT_REQUIRE)' go test -count=1 -tags='$(TAGS)' ./...

api-coverage: deps ## What binds every function of the C headers, or why none does: */api.txt, diffed by CI
	go generate ./verbs ./fabric
	@tail -qn1 verbs/api.txt fabric/api.txt
