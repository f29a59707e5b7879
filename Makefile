# Needs Python 3.11+ and make; each target makes the virtual environment it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
NATIVE := $(VENV)/.native
SOURCES := src tests bench
# Whole files, in their order: those that start clusters and Spark come first, the many small ones fill up the end.
SHARED := --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-long test-asan check fix bench bench-walk bench-turns bench-client bench-compare bench-spark bench-cluster bench-memory simulate planted bench-scale clean

help:              ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 16

$(READY): pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# The editable install builds the native leaves too; this rebuilds them when only their source changed.
$(NATIVE): $(READY) $(wildcard $(foreach end,pyx pxi pxd h,src/ottla/*/*.$(end) src/ottla/*/*/*.$(end) src/ottla/*/*/*/*.$(end)))
	$(BIN)/python setup.py --quiet build_ext --inplace
	touch $@

demo: $(NATIVE)    ## the main job in one run
	$(BIN)/python -m ottla.demo

test: $(NATIVE)    ## all tests but the long campaigns
	$(BIN)/python -m pytest -n 2 $(SHARED)

test-long: $(NATIVE)  ## the long campaigns too: millions of fuzz inputs
	OTTLA_HYPOTHESIS=long $(BIN)/python -m pytest -n 2 $(SHARED) -m "long or not long"

test-asan: $(NATIVE)  ## fuzzers and twins on native leaves with AddressSanitizer, built into build/sanitized
	$(BIN)/python -m tests.fuzz.sanitized

check: $(NATIVE)   ## lint, format and strict types
	$(BIN)/ruff check $(SOURCES) setup.py
	$(BIN)/ruff format --check $(SOURCES) setup.py
	$(BIN)/mypy

fix: $(NATIVE)     ## let ruff repair what it can
	$(BIN)/ruff check --fix $(SOURCES) setup.py
	$(BIN)/ruff format $(SOURCES) setup.py

bench: $(NATIVE)   ## the micro benchmarks as ratios, one table
	$(BIN)/python -m bench.micro

bench-walk: $(NATIVE)  ## the broker against bare servers, as ratios
	$(BIN)/python -m bench.walk

bench-compare: $(NATIVE)  ## the same load on Apache Kafka and on Ottla, as ratios
	$(BIN)/python -m bench.compare

bench-turns: $(NATIVE)  ## this tree against another commit, in turns: make bench-turns COMMIT=HEAD~20
	$(BIN)/python -m bench.turns $(COMMIT)

bench-client: $(NATIVE)  ## our client beside those of the field, as ratios
	$(BIN)/python -m bench.client

bench-spark: $(NATIVE)  ## our Spark source and sink beside the JVM connector
	$(BIN)/python -m bench.spark

bench-cluster: $(NATIVE)  ## three brokers on one ZooKeeper
	$(BIN)/python -m bench.cluster

bench-memory: $(NATIVE)  ## what broker and clients hold over an hour of mixed load: make bench-memory MINUTES=60
	$(BIN)/python -m bench.memory --minutes $(or $(MINUTES),60)

bench-scale: $(NATIVE)  ## 10,000 partitions, 5,000 connections, 1,000 groups, 10 GB, beside Apache Kafka
	$(BIN)/python -m bench.scale

simulate: $(NATIVE)  ## seeds that nobody has run yet, for so long: make simulate HOURS=1
	$(BIN)/python -m ottla.simulation --hours $(or $(HOURS),1)

planted: $(NATIVE)  ## plants every known kind of bug and lets seeds find it; takes hours
	$(BIN)/python -m tests.planted

clean:             ## remove the environment and what was built
	rm -rf $(VENV) build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src -name "*.so" -delete -o -name "_*.c" -delete
