# The commands of the project. `make run` shows weir at work, `make test` tests it.

GO      ?= go

# The race detector needs a C compiler. Without one the tests still run, and say so.
CC_FOUND := $(shell command -v $${CC:-gcc} 2>/dev/null || command -v clang 2>/dev/null)
RACE     := $(if $(CC_FOUND),-race,)

.PHONY: build run test test-root lint fuzz bench bench-compare bench-report bench-overload clean

build:
	$(GO) build -trimpath -o build/weir ./cmd/weir

# Starts three backends, a balancer and some traffic, all inside one process.
run: build
	@./build/weir demo

# Everything, with the race detector and real servers. What a test lacks on
# this machine it names when it skips; with CI set, lacking it is a failure.
test:
	@$(if $(RACE),,echo "make test: no C compiler, so no race detector (Debian: apt install gcc libc6-dev)")
	$(GO) test $(RACE) -timeout 20m ./...

# The tests that need root, network namespaces and eBPF, and nothing else.
test-root:
	@test "$$(id -u)" = 0 || { echo "make test-root: run it as root"; exit 1; }
	CI=1 $(GO) test $(RACE) -timeout 20m -run 'NoSessionWithItself|DeadPeer|ConnectIntoSilence|VanishesIsDead|UDPAnswersFrom|UDPBroadcast|UDPPathMTU|UDPPortsRunOut|PrimaryIsPartitioned|ChecksArePolite|UpgradeInAContainer|FormattingKeeps' ./integration
	CI=1 $(GO) test $(RACE) ./ebpf/...

lint:
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) mod tidy -diff

# Each fuzz target for FUZZTIME.
FUZZTIME ?= 30s
fuzz:
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

# Against a direct connection, nginx and HAProxy, to bench/results; QUICK=1
# takes under five minutes and writes to build.
bench: build
	$(GO) run ./bench -weir build/weir $(if $(QUICK),-quick -out build,-out bench/results) $(BENCHFLAGS)

# What changed between two reports: make bench-compare OLD=a.json NEW=b.json
bench-compare:
	$(GO) run ./bench compare $(OLD) $(NEW)

# Tables and plots of a saved report again, and its essence in the README:
# make bench-report FILE=bench/results/DATE.json
bench-report:
	$(GO) run ./bench report -readme README.md $(FILE)

# What adaptive_limit does for a server while its load triples, with one weir and
# with three, to bench/results; QUICK=1 is short and writes to build.
bench-overload: build
	$(GO) run ./bench overload -weir build/weir $(if $(QUICK),-quick -out build,-out bench/results) $(BENCHFLAGS)
	$(GO) run ./bench overload -weir build/weir -processes 3 $(if $(QUICK),-quick -out build,-out bench/results) $(BENCHFLAGS)

clean:
	rm -rf build
