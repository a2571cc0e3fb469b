# Headgate: every command of a working day. `make` alone lists them.
# Needs python3 >= 3.11 and make; everything else goes into .venv.

PYTHON ?= python3
UV_VERSION := 0.13.7
VENV := .venv
BIN := $(VENV)/bin
PROJECTS := pyproject.toml sandbox/pyproject.toml
LOCK := requirements-dev.lock
DEMO_LOCK := requirements-demo.lock
# What `headgate aws package` installs, which comes with the wheel: nothing of SQL, and no server.
LAMBDA_LOCK := src/headgate/aws/requirements.lock
EMULATORS := .venv-aws
EMULATORS_LOCK := requirements-emulators.lock
# Passed on to the program: make test ARGS="-k breaker"
ARGS ?=
SEEDS ?= 1000
UPGRADE ?= --upgrade
TESTERS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$(( n > 2 ? n * 2 : 4 )))
CORE_TESTS := tests/unit/model tests/unit/policy tests/unit/flow tests/flow
FAST := tests/unit tests/flow tests/web tests/cli tests/conformance tests/systems tests/sandbox
PYTEST = $(BIN)/python -m pytest --dist worksteal --durations 50 --durations-min 1
# Tells the CPU time of a run too, servers included: its time depends on what else runs.
MEASURED = $(BIN)/python -m tools.cpu_seconds
PEERS := .venv-peers
GRAPHILE := 0.17.3
BENCHES := engine budget outbox forecast aws $(if $(wildcard bench/notes.py),notes) $(if $(wildcard bench/activity_streams),activity_streams.backfill activity_streams.streams) idle
TYPED := src sandbox/src tests tools bench examples

# Without bytecode every process compiles all that it imports, which takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all test-fast mutants coverage simulate bench bench-check check audit reference screenshots without lock clean peers

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# A tenth of the packages will do, unless all are there already.
# exec, so that Ctrl-C reaches the program itself and nothing stands between.
demo: $(if $(wildcard $(VENV)/.ok),$(VENV)/.ok,$(VENV)/.demo) ## Run the demonstration
	@exec $(BIN)/headgate demo $(ARGS)

# More processes than cores: about a hundred tests wait for real leases, and meanwhile others compute.
test: $(VENV)/.ok ## Run the tests; pass pytest options by ARGS="..."
	@echo "==> testing in $(TESTERS) processes"
	@exec $(MEASURED) $(PYTEST) -n $(TESTERS) -m "not thorough" $(ARGS)

# What HYPOTHESIS_PROFILE=ci says: property tests at full size, and whole days where `make test`
# plays hours.
test-all: $(VENV)/.ok ## Run all that `make test` leaves out: about a quarter of an hour
	@HYPOTHESIS_PROFILE=ci $(MEASURED) $(PYTEST) -n $(TESTERS) -m "thorough or hypothesis" $(ARGS)
	@$(MAKE) --no-print-directory mutants

mutants: $(VENV)/.ok ## Break the product in one place at a time, and check that tests fail by it
	@exec $(BIN)/python -m tools.mutants

test-fast: $(VENV)/.ok ## Run the tests that need no server, no browser and no patience
	@HEADGATE_TEST_SERVERS=none exec $(MEASURED) $(PYTEST) -n auto \
		-m "not servers and not slow and not thorough" $(FAST) $(ARGS)

# Of the core alone, by its own quick tests: to trace all the others would take longer than they do.
coverage: $(VENV)/.ok ## Check that the tests of model, policy and flow reach every branch
	@exec $(PYTEST) -n auto -m "not slow and not thorough" $(CORE_TESTS) --cov

simulate: $(VENV)/.ok ## Run the engine under faults from many seeds: SEEDS=1000
	@exec $(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)

bench: $(VENV)/.ok ## Measure, next to the bare drivers; ARGS=--quick for a short run
	@for name in $(BENCHES); do echo "==> $$name"; $(BIN)/python -m bench.$$name $(ARGS) || exit 1; done

# Into an environment of their own: the product needs none of them.
peers: $(VENV)/.ok ## Install the peers that `python -m bench.peers` measures Headgate beside
	@echo "==> installing the peers into $(PEERS)"
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(PEERS)
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(PEERS)/bin/python \
		--requirement bench/requirements-peers.txt
	@if command -v npm >/dev/null; then \
		npm install --silent --no-audit --no-fund --prefix .cache/peers graphile-worker@$(GRAPHILE); \
	else echo "Node is not here: Graphile Worker is left out"; fi

bench-check: $(VENV)/.ok ## Run every benchmark in short, and check that nothing is lost or above a limit
	@$(MAKE) --no-print-directory bench ARGS=--quick

check: $(VENV)/.ok ## Lint, format, types, layers, docs, migrations, generated pages
	@echo "==> ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@echo "==> mypy"
	@$(BIN)/mypy $(TYPED)
	@echo "==> layers"
	@$(BIN)/lint-imports --no-logo
	@echo "==> docs"
	@$(BIN)/python -m tools.check_docs
	@echo "==> migrations"
	@$(BIN)/python -m tools.check_migrations
	@echo "==> diagrams"
	@$(BIN)/python -m tools.diagrams --check
	@echo "==> promises"
	@$(BIN)/python -m tools.promises --check
	@echo "==> reference"
	@$(BIN)/python -m tools.reference --check

audit: $(VENV)/.ok ## Look for known vulnerabilities and licences, and write a bill of materials
	@exec $(BIN)/python -m tools.audit

reference: $(VENV)/.ok ## Write the reference of the command line and of the Python API again
	@exec $(BIN)/python -m tools.reference

screenshots: $(VENV)/.ok ## Take the pictures in the README again
	@exec $(BIN)/python -m tools.screenshots

SYSTEM ?= activity_streams
without: $(VENV)/.ok ## Check that everything else stands without a system: SYSTEM=activity_streams
	@exec $(BIN)/python -m tools.without_system $(SYSTEM)

# Not published yet: both are installed from the working copy.
OURS := --no-emit-package headgate --no-emit-package headgate-sandbox
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(OURS)
# The demonstration gets the versions that the tests ran with.
lock: $(BIN)/uv ## Resolve the dependencies again into the lock files; UPGRADE= keeps versions
	@echo "==> writing $(LOCK)"
	@$(COMPILE) $(UPGRADE) --extra http --extra postgres --extra redis --extra email --extra vectors \
		--extra scraping --extra fast --extra sandbox --extra web --extra aws --group dev \
		--output-file $(LOCK) pyproject.toml
	@echo "==> writing $(DEMO_LOCK)"
	@$(COMPILE) --extra sandbox --extra web --group build --constraint $(LOCK) \
		--output-file $(DEMO_LOCK) pyproject.toml
	@echo "==> writing $(LAMBDA_LOCK)"
	@$(COMPILE) --extra aws --extra web --constraint $(LOCK) \
		$(foreach name,alembic greenlet mako sqlalchemy uvicorn,--no-emit-package $(name)) \
		--output-file $(LAMBDA_LOCK) pyproject.toml
	@echo "==> writing $(EMULATORS_LOCK)"
	@$(COMPILE) $(UPGRADE) --group emulators --output-file $(EMULATORS_LOCK)

clean: ## Remove .venv, caches and build output
	@rm -rf $(VENV) $(EMULATORS) $(PEERS) dist build .mypy_cache .pytest_cache \
		.ruff_cache .import_linter_cache \
		.hypothesis .cache .coverage htmlcov
	@find src sandbox tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.ok: $(LOCK) $(EMULATORS_LOCK) $(PROJECTS) | $(BIN)/uv
	@$(call install,$(LOCK))
	@echo "==> installing the emulators of AWS"
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(EMULATORS)
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(EMULATORS)/bin/python \
		--require-hashes --requirement $(EMULATORS_LOCK)
	@touch $@

$(VENV)/.demo: $(DEMO_LOCK) $(PROJECTS) | $(BIN)/uv
	@$(call install,$(DEMO_LOCK))
	@touch $@

define install
echo "==> installing the locked packages"
$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes --requirement $(1)
echo "==> installing headgate and its sandboxes"
$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps \
	--editable . --editable sandbox
$(BIN)/python -m compileall -q src sandbox/src
endef

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Headgate needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory python3-venv
	@echo "==> creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv==$(UV_VERSION)

# Debian ships the venv module without its installer, which is a package of its own.
.PHONY: python3-venv
python3-venv:
	@test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		|| { echo "Please install the package python3-venv: Python's venv module is incomplete."; exit 1; }
	@echo "==> installing python3-venv"
	@apt-get update -qq
	@DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
