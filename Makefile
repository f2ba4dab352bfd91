# `make` alone prints this help.
PYTHON ?= python3
BIN := .venv/bin
# auto: tests/conftest.py counts processors and memory
TESTS_AT_ONCE ?= auto

# Tests start hundreds of processes: Python is to keep what it has compiled, and pytest the assertions it has rewritten
unexport PYTHONDONTWRITEBYTECODE
# CI tries the same each time, so sets have the same order, too
ifdef CI
export PYTHONHASHSEED = 0
endif

# make bench SAVE=--save puts the figures into bench/results
SAVE ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test nightly times test-fast kerberos package check check-style check-types check-c sanitize fuzz cross chaos bench bench-peers docs lock format golden screenshots site clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: .venv/.ready ## Set up the environment; the command is then .venv/bin/ingest

NATIVE := $(wildcard $(foreach kind,c h pyx pxd,ingest/native/*.$(kind) ingest/*/native/*.$(kind) ingest/*/*/native/*.$(kind)))
# Seconds in each build of the leaf functions, and times the usual examples of the property tests
FUZZ_SECONDS ?= 60
FUZZ_EXAMPLES ?= 10
# Times the usual examples, with the sanitizers
SANITIZE_EXAMPLES ?= 1

TESTS := $(BIN)/python -m pytest -q -n $(TESTS_AT_ONCE) --dist loadfile
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What the command and the demo need. Python compiles what is imported, when it is: pip would compile all of it
.venv/.command: pyproject.toml setup.py constraints.txt requirements-demo.lock $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@command -v java >/dev/null || test -x "$$JAVA_HOME/bin/java" || { echo "Java 17 or newer is needed"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --no-compile --require-hashes -r requirements-demo.lock
	@$(PIP) --no-compile --no-deps -c constraints.txt -e .
	@$(BIN)/python -c 'from ingest.native.native import BUILT as b; b or print("There is no C compiler (or INGEST_NATIVE=off): all works, slowly")'
	@touch $@

.venv/.ready: .venv/.command requirements-dev.lock
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

demo: .venv/.command ## Start a real Kafka, run a pipeline on it, show what happened
	@$(BIN)/python tools/demo.py

test: setup ## Run the tests of each change; those on Kafka start their own broker
	@INGEST_EXAMPLES=0.25 $(TESTS) -m "not nightly"

nightly: setup ## Run every test, also those of tests/nightly.txt, with four times the examples of properties
	@INGEST_EXAMPLES=4 $(TESTS)

times: setup ## Run make test, and write how long each file takes: it begins with the longest
	@INGEST_TIMES=1 INGEST_EXAMPLES=0.25 $(TESTS) -m "not nightly"

test-fast: setup ## Run the tests without brokers and Spark, and a tenth of the examples of properties
	@INGEST_EXAMPLES=0.1 $(TESTS) -m "not java and not database"

kerberos: setup ## Build a client that can do Kerberos, and test it with a real KDC (docker/kerberos-client.sh)
	@tools/kerberos $(BIN)/python

package: setup ## Build dist/*.whl and the source distribution, and run pipelines with the wheel and as the image would
	@tools/package $(BIN)/python

check: check-style check-types check-c ## Format, lint, types, layers, docs, links; side by side with make -j 2

check-style: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports
	@$(BIN)/python tools/docs.py --check
	@$(BIN)/python tools/pages.py --check
	@$(BIN)/python tools/links.py

check-types: setup
	@$(BIN)/mypy

check-c: setup
	@$(BIN)/python tools/check_c.py $(filter %.c %.pyx,$(NATIVE))

sanitize: setup ## Run the tests of the native code with the address and undefined-behaviour sanitizers (gcc)
	@INGEST_EXAMPLES=$(SANITIZE_EXAMPLES) tools/sanitize $(BIN)/python

fuzz: setup ## Fuzz the native code: its leaf functions (clang's libFuzzer), all of it against the reference, and sanitize
	@tools/fuzz $(BIN)/python $(FUZZ_SECONDS) $(FUZZ_EXAMPLES)
	@INGEST_EXAMPLES=$(SANITIZE_EXAMPLES) tools/sanitize $(BIN)/python

cross: ## Build the leaf functions for aarch64, and run them where there is an emulator
	@tools/cross

chaos: setup ## Make every fault happen that it is to survive, at full size (bench/CHAOS.md)
	@PYTHONPATH=tests/support $(BIN)/python tests/chaos

bench: setup ## Measure against a raw Kafka copy, in one run (bench/README.md)
	@$(BIN)/python bench/throughput.py $(SAVE)
	@$(BIN)/python bench/delivery.py $(SAVE)
	@$(BIN)/python bench/latency.py $(SAVE)
	@$(BIN)/python bench/schemas.py $(SAVE)
	@$(BIN)/python bench/check.py $(SAVE)
	@$(BIN)/python bench/metrics.py $(SAVE)
	@$(BIN)/python bench/into_postgres.py $(SAVE)

bench-peers: setup ## Measure beside Flink, Debezium and Flink CDC, and what transforms cost (bench/README.md)
	@$(BIN)/python bench/peers.py $(SAVE)
	@$(BIN)/python bench/transforms.py $(SAVE)
	@$(BIN)/python bench/from_mysql.py --rows 1000000 --changes 500000 --rounds 3 $(SAVE)

docs: setup ## Generate the JSON Schema, the option reference, and tables of pages
	@$(BIN)/python tools/docs.py
	@$(BIN)/python tools/pages.py

lock: setup ## Write the lock files: the versions of constraints.txt, with the hashes of all their files
	@tools/lock $(BIN)/python

format: setup ## Format the code and mend what lint can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

golden: setup ## Write the golden files of the tests anew, to be read in the diff
	@UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/errors

screenshots: setup ## Take pictures of pages about runs, of the site and of commands with Chromium, into build/screenshots/
	@PYTHONPATH=tests/support $(BIN)/python tools/screenshots.py

site: setup ## Build the documentation as a site, into site/
	@$(BIN)/mkdocs build --strict

clean: ## Remove the environment and caches
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
