# SPDX-License-Identifier: GPL-2.0
#
# The commands for people. Each is one script, run in a sysroot that is made on first use; the
# rules for the kernel's build system are in Kbuild.

KVER ?=
FLAVOUR ?= cloud-amd64
MIRROR ?=
DESTDIR ?=
ARGS ?=
export KVER FLAVOUR MIRROR DESTDIR

enter := scripts/enter
cargo_target = $(shell scripts/env | sed -n 's/^export CARGO_TARGET_DIR=//p')/release

.DEFAULT_GOAL := module
.PHONY: all module install setup tools run test cost clippy fmt fmt-check doc rust-analyzer \
	clean distclean help
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

test:
	@scripts/test

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
	@echo 'Main jobs (as root; whatever is missing is set up first, once):'
	@echo '  make run             - boot the stock kernel in a guest, compare the C driver with ours'
	@echo '                         ARGS="--help" lists the options'
	@echo '  make test            - static checks, host tests, guest tests; full logs in results/test'
	@echo '  make cost            - guest instructions per I/O, ours against the C driver'
	@echo
	@echo 'Module:'
	@echo '  make [module]        - build/<kernel release>/virtio_blk_rs.ko'
	@echo '  make install         - install it for that kernel (DESTDIR=... for another system)'
	@echo '  make clippy          - lint everything; a warning is an error'
	@echo '  make fmt, fmt-check  - format all Rust code; say what is not formatted'
	@echo '  make doc             - rustdoc of the kernel crates, to build/doc'
	@echo '  make rust-analyzer   - rust-project.json for editors'
	@echo '  make clean           - remove what was built here'
	@echo
	@echo 'Environment:'
	@echo '  make setup           - make the sysroot and the kernel build tree, print where they are'
	@echo '  make tools           - build the host tools'
	@echo '  make distclean       - remove the cache as well'
	@echo
	@echo 'Variables:'
	@echo '  FLAVOUR=cloud-amd64  - flavour of the stock kernel: cloud-amd64 or amd64'
	@echo '  KVER=<uname -r>      - that very kernel instead of the newest of the flavour'
	@echo '  MIRROR=<address>     - package mirror for the set-up'
	@echo '  XDG_CACHE_HOME=<dir> - where the cache lies (default ~/.cache)'
	@echo
	@echo 'A shell in the sysroot: scripts/enter bash. More: Documentation/build.rst'
