# SPDX-License-Identifier: GPL-2.0
#
# The commands for people. Each is one script, run in a sysroot that is made on first use; the
# rules for the kernel's build system are in Kbuild.

KVER ?=
FLAVOUR ?= cloud-amd64
MIRROR ?=
DESTDIR ?=
QUICK ?=
ARGS ?=
STAGES ?=
SOURCE ?=
export KVER FLAVOUR MIRROR DESTDIR ARGS

enter := scripts/enter
cargo_target = $(shell scripts/env | sed -n 's/^export CARGO_TARGET_DIR=//p')/release

define help_text
Main jobs (as root; whatever is missing is set up first, once):
  make run             - boot the stock kernel in a guest, compare the C driver with ours
                         ARGS="--help" lists the options
  make test            - static checks, host tests, guest tests; full logs in results/test
                         STAGES="static host guest bench" chooses other stages
  make test-long       - the same with the guest tests in full size
  make cost            - guest instructions per I/O, ours against the C driver
  make bench           - all that is claimed, measured: counts, cost, times; 40 minutes
                         QUICK=1: counts and cost only, compared with what they were
                         ARGS="--scenario NAME" and "--list" choose and list scenarios
  make blktests, make xfstests SOURCE=<directory of the sources>
                       - these suites on the C driver and on ours
                         ARGS="--tests block/003", ARGS="--fs xfs"; Documentation/testing.rst
  make bench-report    - Documentation/bench-report.md from what make bench has measured

Module:
  make [module]        - build/<kernel release>/virtio_blk_rs.ko
  make install         - install it for that kernel (DESTDIR=... for another system)
  make clippy          - lint everything; a warning is an error
  make fmt, fmt-check  - format all Rust code; say what is not formatted
  make doc             - rustdoc of the kernel crates, to build/doc
  make rust-analyzer   - rust-project.json for editors
  make clean           - remove what was built here

Environment:
  make setup           - make the sysroot and the kernel build tree, print where they are
  make tools           - build the host tools
  make distclean       - remove the cache as well

Variables:
  FLAVOUR=cloud-amd64  - flavour of the stock kernel: cloud-amd64 or amd64
  KVER=<uname -r>      - that very kernel instead of the newest of the flavour
  MIRROR=<address>     - package mirror for the set-up
  XDG_CACHE_HOME=<dir> - where the cache lies (default ~/.cache)

A shell in the sysroot: scripts/enter bash. More: Documentation/build.rst
endef

.DEFAULT_GOAL := module
.PHONY: all module install setup tools run test test-long cost bench bench-report \
	blktests xfstests clippy fmt fmt-check doc rust-analyzer clean distclean help
# The scripts use all processors themselves; two of them at a time would only wait for a lock.
.NOTPARALLEL:

all: module tools

module:
	@scripts/kbuild modules
	@eval "$$(scripts/env)" && echo "  $$VBR_MODULE"

install: module
	@scripts/install

setup:
	@scripts/setup
	@scripts/env

tools: setup
	@$(enter) cargo build --release --locked --manifest-path tools/Cargo.toml

run: module tools
	@$(enter) $(cargo_target)/vbr run $(ARGS)

cost: module tools
	@$(enter) $(cargo_target)/vbr-cost $(ARGS)

bench: module tools
	@$(enter) $(cargo_target)/vbr bench $(if $(filter-out 0,$(QUICK)),--quick) $(ARGS)

bench-report: tools
	@$(enter) $(cargo_target)/vbr report --into Documentation $(ARGS)

blktests xfstests: module tools
	@scripts/suite $@ "$(SOURCE)" $(ARGS)

test:
	@scripts/test $(STAGES)

test-long: ARGS += --long
test-long: test

clippy:
	@scripts/clippy

fmt:
	@scripts/fmt

fmt-check:
	@scripts/fmt --check

doc: module
	@$(enter) scripts/crates doc

rust-analyzer: module
	@scripts/kbuild rust-analyzer
	@$(enter) scripts/crates rust-analyzer

clean:
	@rm -rf build rust-project.json

distclean: clean
	@scripts/distclean

help:
	@$(info $(help_text)):
