# SPDX-License-Identifier: BSD-3-Clause
# A thin wrapper: CMake and Ninja build, scripts/ do the rest.
PREFIX ?= /usr/local
BUILD  := build/plain
INSTALL := build/install
JOBS   := $(shell nproc 2>/dev/null || echo 2)
WALKS  ?= 2000
SEED   ?= 0
MINUTES ?= 5

.PHONY: help deps build demo check soak bench bench-models install uninstall deb check-deb clean format

help:
	@echo 'make demo     a parallel job is killed in mid-run, restarts, and ends with the same answer'
	@echo 'make check    build three times (plain, address, thread sanitizers) and run all tests'
	@echo 'make soak     $(WALKS) random walks over the model of a job (WALKS=N; SEED=N to walk the same again),'
	@echo '              then $(MINUTES) minutes of jobs whose nodes and staging server are killed (MINUTES=N)'
	@echo 'make build    build into build/plain'
	@echo 'make bench    measure reducers and restore on this machine (bench-models: the models against the papers)'
	@echo 'make install  install under PREFIX ($(PREFIX)); DESTDIR is respected'
	@echo 'make uninstall  remove what make install installed'
	@echo 'make deb      Debian packages, in build/deb (check-deb: and try them in a bare Debian, as root)'
	@echo 'make format   clang-format over all sources'
	@echo 'make clean    remove build/'
	@echo
	@echo 'demo, check, soak, build and bench install missing packages first (on Debian and its relatives, as root or with sudo).'

deps:
	@scripts/deps.sh build

build: deps
	@cmake -S . -B $(BUILD) -G Ninja -DKEDGE_WERROR=ON > /dev/null
	@ninja -C $(BUILD) -j $(JOBS)

demo: deps
	@scripts/demo.sh $(BUILD)

check:
	@scripts/deps.sh check
	@scripts/check.sh

soak: build
	@$(BUILD)/tests/lives/lives --seed $(SEED) --rounds $(WALKS) --keep
	@$(BUILD)/tests/lives/lives --seed $(SEED) --rounds $(WALKS) --keep --moments
	@scripts/soak.sh $(BUILD) $(SEED) $(MINUTES)

bench: build
	@$(BUILD)/bin/kedge-bench reduce
	@$(BUILD)/bin/kedge-bench restore
	@$(BUILD)/bin/kedge-bench restore --scattered

bench-models: build
	@$(BUILD)/bench/bench_models

# A build of its own, without tests, which would take longer than all the rest.
install: deps
	@cmake -S . -B $(INSTALL) -G Ninja -DKEDGE_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX) > /dev/null
	@ninja -C $(INSTALL) -j $(JOBS)
	@cmake --install $(INSTALL)

uninstall:
	@scripts/uninstall.sh $(INSTALL)/install_manifest.txt

deb:
	@scripts/deps.sh deb
	@scripts/make-deb.sh

check-deb: deb
	@scripts/check-deb.sh || [ $$? -eq 77 ]

clean:
	rm -rf build

format:
	@git ls-files '*.[ch]' | grep -v '^src/.*\.h$$' | xargs clang-format -i
