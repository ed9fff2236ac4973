# What people and CI type. `make test` is every check and every test; it needs Go
# and fetches the rest itself.

GOLANGCI   := v2.14.0
GORELEASER := v2.16.0
NFPM       := v2.45.2
REGISTRY   := v1.8.6
FUZZTIME ?= 60s
COUNT    ?= 20
VERSION  ?=
SNAPSHOT ?= --snapshot

PROGRAM   := async-crud-mcp
MODULE    := github.com/async-crud-mcp/async-crud-mcp
LDFLAGS   := -s -w $(if $(VERSION),-X $(MODULE)/internal/cli.version=$(VERSION))
GOBUILD   := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: help test check deps build docs stress fuzz bench cross release
help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 10

test: check ## check, then run all tests; names at the end what was skipped
	go run ./scripts/testsum -count=1 -timeout=10m ./...

check: deps ## format, vet, staticcheck, golangci-lint, and generated documents are current
	@bad=$$(gofmt -l cmd internal scripts test bench); test -z "$$bad" || { echo "not gofmt-ed: $$bad" >&2; exit 1; }
	go vet ./...
	go vet -tags conformance,bench ./...
	go tool staticcheck ./...
	scripts/lint.sh $(GOLANGCI)
	scripts/generated.sh
	go run ./scripts/changelog -check

deps: ## fetch what checks and tests need and this machine lacks
	@go run ./scripts/deps -golangci $(GOLANGCI) -nfpm $(NFPM) -registry $(REGISTRY)

build: ## build bin/async-crud-mcp; VERSION=1.2.3 names a release
	$(GOBUILD) -o bin/ ./cmd/$(PROGRAM)

docs: ## write the generated documents and the Unreleased section of CHANGELOG.md
	go generate ./...
	go run ./scripts/changelog

stress: ## every test of our own code COUNT times over
	go run ./scripts/testsum -count=$(COUNT) -timeout=2h ./cmd/... ./internal/...
	ACM_STRESS=1 FSYS_TEST_RACE=5s go run ./scripts/testsum -count=1 -timeout=6h ./test/stress ./test/security ./internal/fsys ./internal/search/...

fuzz: ## every fuzz target for FUZZTIME each
	scripts/fuzz.sh $(FUZZTIME)

bench: ## the server beside a bare one (bench/RESULTS.md), then every Go benchmark ten times
	go run ./bench
	go test -run '^$$' -bench . -benchmem -count 10 -timeout 2h ./internal/...

cross: $(PLATFORMS:%=cross/%) vet/darwin vet/windows ## build for every platform and vet the foreign ones

.PHONY: $(PLATFORMS:%=cross/%) vet/darwin vet/windows
$(PLATFORMS:%=cross/%): cross/%:
	GOOS=$(*D) GOARCH=$(*F) $(GOBUILD) -o bin/$(PROGRAM)_$(*D)_$(*F)$(if $(filter windows,$(*D)),.exe) ./cmd/$(PROGRAM)

vet/darwin vet/windows: vet/%:
	GOOS=$* CGO_ENABLED=0 go vet ./...

release: ## everything a release has, in dist/, unpublished; VERSION=1.2.3 names it, SNAPSHOT= publishes
	SNAPSHOT_VERSION=$(or $(VERSION),$(shell sed -n 's/^var version = "\(.*\)"/\1/p' internal/cli/version.go)) \
		CGO_ENABLED=0 go run -trimpath github.com/goreleaser/goreleaser/v2@$(GORELEASER) release --clean $(SNAPSHOT)

.PHONY: publish-entry
publish-entry: # dist/server.json to the MCP registry, from a workflow that GitHub vouches for
	go run github.com/modelcontextprotocol/registry/cmd/publisher@$(REGISTRY) login github-oidc
	go run github.com/modelcontextprotocol/registry/cmd/publisher@$(REGISTRY) publish dist/server.json
