# Everything that a developer runs. One profile (dev) and one set of packages
# (--workspace) throughout, so that no step compiles again what another did. Only
# images are built with the release profile.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

CARGO ?= cargo
BIN := $(or $(CARGO_TARGET_DIR),target)/debug
SCENARIO ?= demo
DEMO_FLAGS ?=

# Programs that need nothing of the image around them, neither C library nor loader, and in which no
# path of this machine stands. A named target has a folder of its own: the dev build isn't touched.
MACHINE = $(shell rustc -vV | sed -n 's/^host: //p')
STATIC = $(or $(CARGO_TARGET_DIR),target)/$(MACHINE)/release
STATIC_FLAGS = -C target-feature=+crt-static --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo \
	--remap-path-prefix=$(CURDIR)=/fairtide

.PHONY: help build demo demo-cluster test e2e images check crds docs bench bench-policy bench-admission

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the programs, for development
	$(CARGO) build --workspace --bins

demo: build ## FIFO against Fairtide on simulated engines, without a cluster (SCENARIO=demo|burst)
	$(BIN)/fairtide-demo --scenario $(SCENARIO) $(DEMO_FLAGS)

demo-cluster: build ## the same against a real kube-apiserver, policy changed by kubectl apply (needs Go the first time)
	$(BIN)/fairtide-demo-cluster $(DEMO_FLAGS)

test: ## everything: what check does, and all tests, with a real kube-apiserver (needs Go the first time)
	tests/all

images: build ## static container images, into target/images (release profile)
	RUSTFLAGS='$(STATIC_FLAGS)' $(CARGO) build --release --target $(MACHINE) \
		-p fairtide-operator -p fairtide-sidecar -p fairtide-sim --bins
	$(BIN)/xtask images --programs $(STATIC) --out target/images

e2e: build images ## install and try it on a real node (needs root, Debian or Ubuntu, and Go the first time)
	tests/e2e/run

check: ## format, lints, generated files, dependency arrows, licences
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) build --workspace --bins
	$(BIN)/xtask crds --check
	$(BIN)/xtask docs --check
	$(BIN)/xtask check

crds: build ## write crds/ from the Rust types
	$(BIN)/xtask crds

docs: build ## write docs/reference/ from the Rust types
	$(BIN)/xtask docs

bench: ## how long a decision takes (criterion, release profile)
	$(CARGO) bench -p fairtide-scheduler

bench-policy: build ## how long a policy edit takes to reach the sidecars (needs Go the first time)
	$(BIN)/fairtide-bench-policy

bench-admission: build ## what the webhook adds to the creation of a pod (needs Go the first time)
	$(BIN)/fairtide-bench-admission
