# Every habit of this package has one word here. `make check` before each commit, `make test`
# before each push.

CARGO ?= cargo
PROGRAMS := capvco capvco-imagepublish capvco-imageresolve capvco-backup capvco-e2e
STATIC_TARGET := x86_64-unknown-linux-gnu
export PATH := $(CURDIR)/.tools/bin:$(PATH)

.PHONY: help check fmt clippy doc fast-tests deny advisories generate test faults demo demo-backup demo-cluster bench \
	shape fuzz release-binaries

help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 20

check: fmt clippy doc fast-tests deny advisories ## Everything that needs no peer; under 3 minutes warm

fmt:
	$(CARGO) fmt --check

clippy:
	$(CARGO) clippy --locked --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --locked --no-deps --document-private-items --quiet

# Also holds the generated references to the programs.
fast-tests:
	$(CARGO) test --locked --quiet --lib --bins
	$(CARGO) test --locked --quiet --test it -- house:: shape:: references:: manners:: support::

deny:
	scripts/test-tools lint
	$(CARGO) deny --log-level error check --hide-inclusion-graph bans licenses sources

advisories:
	scripts/advisories

generate: ## Write the generated references anew
	CAPVCO_REGENERATE=1 $(CARGO) test --locked --quiet --test it -- references::

test: ## Install what tests need, run all of them, and hold their traffic to the vendor's file
	scripts/test

faults: ## Try every mishap with every changing call of the manager; test tries one a call
	scripts/faults

demo: ## Publish a real image to an embedded cloud, resolve it, and leave nothing running
	scripts/demo

demo-backup: ## Back a real etcd up into a locked bucket, restore it, and leave nothing running
	scripts/demo-backup

demo-cluster: ## A Kubernetes cluster on the embedded cloud, from nothing and back (CONTROL_PLANES=3 WORKERS=2 STAY=1)
	scripts/demo-cluster

bench: ## Measure, as ratios within one run
	scripts/bench

shape: ## Print the figures that the code aims at
	CAPVCO_SHAPE=1 $(CARGO) test --locked --quiet --test it -- --nocapture shape::figures

fuzz: ## Fuzz each target for two minutes (needs cargo-fuzz)
	scripts/fuzz

release-binaries: ## Static, stripped programs in dist/
	scripts/release-binaries $(STATIC_TARGET) $(PROGRAMS)
