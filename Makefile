# The doors of the project. `make` alone lists them.

export CARGO_TARGET_DIR ?= $(HOME)/.cache/ropewalk/target

# Where `make run` keeps its data.
DATA ?= ./data
# Where `make dist` puts what is installed.
DIST ?= ./dist
# How many seeds `make sim` runs, if it is not given one.
SEEDS ?= 2000
# Nodes that it runs, and faults that each seed meets.
NODES ?= 1
FAULTS ?= 200
# Anything here: one node's disk is put back from an earlier copy now and then.
COPIES ?=
TABLES ?=
ORDER ?=
TRANSACTIONS ?=
# How long `make fuzz` goes on.
SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help run cluster dist test verify fix fuzz sim bench soak

help:
	@echo "make run      build the release binary and start one node on $(DATA)"
	@echo "make cluster  build it, and start three nodes of one cluster on $(DATA)-cluster"
	@echo "make dist     build what is installed into $(DIST): a small binary, its debug file beside it, manual pages"
	@echo "make test     install what the tests need, then run them all"
	@echo "make verify   change nothing: format, lints, documentation, crate arrows"
	@echo "make fix      format, and apply what the lints can apply"
	@echo "make fuzz     TARGET=... SECONDS=60: fuzz one target; without TARGET, list them"
	@echo "make sim      SEED=n, or SEEDS=2000; NODES=1 FAULTS=200 COPIES=1 BITS=1 TABLES=1 ORDER=1 TRANSACTIONS=1: whole nodes in one thread, with faults"
	@echo "make bench    measure, and write the report"
	@echo "make soak     what takes hours: many kills and power cuts, tests of many seeds, histories of transactions, fuzzing, an hour of load"

run:
	cargo build --release -p cli --bin ropewalk
	exec "$(CARGO_TARGET_DIR)/release/ropewalk" serve --data "$(DATA)"

cluster:
	cargo build --release -p cli --bin ropewalk
	exec examples/three-nodes "$(CARGO_TARGET_DIR)/release/ropewalk" "$(DATA)-cluster"

# Cargo strips symbols or keeps them; objcopy sets them apart. The binary names the debug file and a sum of it, by which debuggers,
# profilers and the binary's own backtraces find it beside the binary or below /usr/lib/debug.
dist:
	cargo build --release --locked -p cli --bin ropewalk
	mkdir -p "$(DIST)"
	objcopy --only-keep-debug "$(CARGO_TARGET_DIR)/release/ropewalk" "$(DIST)/ropewalk.debug"
	chmod -x "$(DIST)/ropewalk.debug"
	objcopy --strip-all --add-gnu-debuglink="$(DIST)/ropewalk.debug" "$(CARGO_TARGET_DIR)/release/ropewalk" "$(DIST)/ropewalk"
	"$(DIST)/ropewalk" man "$(DIST)/man1"
	"$(DIST)/ropewalk" -V

# All parts run even if one fails, so that one run tells everything. The fuzz targets are a workspace of their own, and so are
# the drivers of other systems. The simulator is the one that its tests were built with.
test:
	@tests/prepare
	@status=0; minutes=; \
	simulator() { "$(CARGO_TARGET_DIR)/debug/simulator" "$$@"; }; \
	part() { began=$$(date +%s); "$$@" || status=1; minutes="$$minutes, $$((($$(date +%s) - began + 30) / 60)) $$1 $$2"; }; \
	part cargo test --workspace --no-fail-fast; \
	part cargo test --manifest-path fuzz/Cargo.toml --no-fail-fast; \
	part tests/peers; \
	part simulator --seeds 200; \
	part simulator --order --seeds 60; \
	part simulator --nodes 3 --faults 40 --order --seeds 20; \
	part simulator --transactions --seeds 20; \
	part simulator --nodes 3 --faults 40 --transactions --seeds 8; \
	part tests/run; \
	echo "minutes of the parts:$${minutes#,}"; \
	exit $$status

verify:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --manifest-path fuzz/Cargo.toml --all-targets -- -D warnings
	for peer in librdkafka layouts; do \
		cargo fmt --manifest-path bench/peers/$$peer/Cargo.toml --check && \
		cargo clippy --locked --manifest-path bench/peers/$$peer/Cargo.toml --all-targets -- -D warnings || exit 1; \
	done
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	cargo test -p cli --test crate_arrows

fix:
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	cargo fmt --all

# RUSTC_BOOTSTRAP lets the stable compiler take the sanitizer flags that cargo-fuzz passes. What the engine finds goes
# to fuzz/corpus, which is not kept; fuzz/seeds is. No single allocation may pass the limit, whatever an input claims.
# One seed is told event by event; of many, those that fail.
sim:
	cargo build --profile simulated -p simulator
ifdef SEED
	RUST_LOG=$${RUST_LOG:-simulator=info} "$(CARGO_TARGET_DIR)/simulated/simulator" --nodes "$(NODES)" --faults "$(FAULTS)" $(if $(COPIES),--copies) $(if $(BITS),--bits) $(if $(TABLES),--tables) $(if $(ORDER),--order) $(if $(TRANSACTIONS),--transactions) --seed "$(SEED)"
else
	"$(CARGO_TARGET_DIR)/simulated/simulator" --nodes "$(NODES)" --faults "$(FAULTS)" $(if $(COPIES),--copies) $(if $(BITS),--bits) $(if $(TABLES),--tables) $(if $(ORDER),--order) $(if $(TRANSACTIONS),--transactions) --seeds "$(SEEDS)"
endif

fuzz:
	@test -n "$(TARGET)" || { echo "make fuzz TARGET=..., one of:"; ls fuzz/seeds; exit 2; }
	@test -d "fuzz/seeds/$(TARGET)" || { echo "there is no target $(TARGET), only:"; ls fuzz/seeds; exit 2; }
	@cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked
	@mkdir -p "fuzz/corpus/$(TARGET)"
	RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir fuzz --features libfuzzer "$(TARGET)" \
		"fuzz/corpus/$(TARGET)" "fuzz/seeds/$(TARGET)" -- -max_total_time=$(SECONDS) -malloc_limit_mb=16 -rss_limit_mb=1024

bench:
	bench/run

soak:
	tests/soak
