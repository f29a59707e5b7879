# Needs Python 3.11+ and make; each target makes the virtual environment it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SMALL  := $(VENV)/.small
NATIVE := $(VENV)/.native
SOURCES := src tests bench packaging website
LEAVES := $(wildcard $(foreach end,pyx pxi pxd h,src/ottla/*/*.$(end) src/ottla/*/*/*.$(end) src/ottla/*/*/*/*.$(end)))
# Whole files, in their order: those that start clusters and Spark come first, the many small ones fill up the end.
SHARED := --dist loadfile --no-loadscope-reorder

.PHONY: help demo docs compiled test test-again test-long test-asan fuzz check fix faces bench bench-walk bench-turns bench-client bench-compare bench-spark bench-cluster bench-memory simulate planted bench-scale bench-demo bench-registry bench-tables clean

help:              ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 16

# The editable install builds the native leaves, too.
$(READY): pyproject.toml setup.py
	@$(PYTHON) packaging/install.py $(VENV) '.[dev]'
	@touch $@ $(SMALL) $(NATIVE)

# What the demo needs: without the linters and the clients that tests compare with.
$(SMALL): pyproject.toml setup.py
	@$(PYTHON) packaging/install.py $(VENV) '.[console,registry,spark]'
	@touch $@

# Builds the leaves again when only their source changed.
$(NATIVE): $(READY) $(LEAVES)
	@test -e $@ && test -z "$$(find $(LEAVES) -newer $@)" || $(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

demo: $(SMALL)     ## the main job in one run; STAY=1 keeps its broker running
	@$(BIN)/python -m ottla.demo $(if $(STAY),--stay)

docs: $(NATIVE)    ## the docs site, in build/site; nothing is fetched
	$(BIN)/python -m website build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

compiled: $(NATIVE)  ## have mypyc compile the rooms that a record passes, in place; tried, not finished
	OTTLA_BUILD_NATIVE=0 OTTLA_BUILD_ROOMS=1 $(BIN)/python setup.py --quiet build_ext --inplace

test: $(NATIVE)    ## all tests but the long campaigns
	$(BIN)/python -m pytest -n 2 $(SHARED)

test-again: $(NATIVE)  ## what failed in the last `make test`, once more and alone; for CI
	$(BIN)/python -m tests.again

test-long: $(NATIVE)  ## the long campaigns too: millions of fuzz inputs
	OTTLA_HYPOTHESIS=long $(BIN)/python -m pytest -n 2 $(SHARED) -m "long or not long"

test-asan: $(NATIVE)  ## fuzzers and twins on native leaves with AddressSanitizer, built into build/sanitized
	$(BIN)/python -m tests.fuzz.sanitized

fuzz: $(NATIVE)    ## every decoder, broker and client with coverage (atheris), and a table: make fuzz INPUTS=5000000
	$(BIN)/python -m tests.fuzz.campaign --inputs $(or $(INPUTS),5000000)

check: $(NATIVE)   ## lint, format, strict types, and no made file is stale
	$(BIN)/ruff check $(SOURCES) setup.py
	$(BIN)/ruff format --check $(SOURCES) setup.py
	$(BIN)/mypy
	$(BIN)/python packaging/faces.py --check

faces: $(NATIVE)   ## make the sync calls of the client again from the asyncio ones
	$(BIN)/python packaging/faces.py

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

bench-registry: $(NATIVE)  ## a schema registry with 10,000 schemas
	$(BIN)/python -m bench.registry

bench-tables: $(NATIVE)  ## records as rows of tables, per CPU second
	$(BIN)/python -m bench.tables

bench-scale: $(NATIVE)  ## 10,000 partitions, 5,000 connections, 1,000 groups, 10 GB, beside Apache Kafka
	$(BIN)/python -m bench.scale

bench-demo:        ## a fresh clone to the end of make demo: how long, and how long without a line
	@$(PYTHON) -m bench.first_minutes --show

simulate: $(NATIVE)  ## seeds for so long (HOURS=1), or these (SEEDS=1-50000); JOBS=2, SHORT=1, REPORT=file
	$(BIN)/python -m ottla.simulation $(if $(SEEDS),--seeds $(SEEDS),--hours $(or $(HOURS),1)) --jobs $(or $(JOBS),1) \
		$(if $(SHORT),--short) $(if $(BROKERS),--brokers $(BROKERS)) $(if $(REPORT),--report $(REPORT))

planted: $(NATIVE)  ## plants every known kind of bug and lets seeds find it; takes hours
	$(BIN)/python -m tests.planted --keep --table

.PHONY: setup-prometheus
setup-prometheus: $(READY)  ## fetch Debian's Prometheus for the tests that want it; nothing is installed
	$(BIN)/python -m tests.cluster.prometheus_server

.PHONY: setup-browser
setup-browser: $(READY)  ## install Debian's Chromium and what drives it, for the tests of the console's pages (tests/browser)
	$(BIN)/python -m tests.browser.chromium

clean:             ## remove the environment and what was built
	rm -rf $(VENV) build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src -name "*.so" -delete -o -name "_*.c" -delete
