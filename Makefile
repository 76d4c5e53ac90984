# One command a task. Each creates what it needs: .venv for Penstock and its tests, .peers for the published
# MCP servers and clients that the tests talk to.

PYTHON ?= $(shell scripts/find_python)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help eval-learning real-world demo-live share dist release-check real-clients seeds demo environment test test-quick test-pythons test-pythons-short lint types clean conformance conformance-short peers bench bench-quick bench-peers json-verdicts fuzz properties-long faults soak mutants audit secrets instructions attack eval-search before-release

help:
	@echo "make demo         see tools vanish, with the bundled sample server"
	@echo "make demo-live    the live view in a browser, with two clients that make varied traffic"
	@echo "make test         run the tests"
	@echo "make test-pythons  the tests on every Python from 3.11 up that is here (long)"
	@echo "make lint         ruff, style and layout"
	@echo "make types        mypy, strict"
	@echo "make conformance  the official MCP conformance suites, direct and through Penstock"
	@echo "make bench        what Penstock adds, beside nginx, a plain relay and peers (15 minutes); writes docs/performance.md"
	@echo "make bench-quick  the same in two minutes, printed only"
	@echo "make bench-peers  install the peers that the benchmark compares with"
	@echo "make seeds        what the founding documents promised, row by row, into docs/seeds.md"
	@echo "make json-verdicts  what the gate makes of the JSONTestSuite corpus, into docs"
	@echo "make fuzz         coverage-guided fuzzing, FUZZ_SECONDS=60 for each target"
	@echo "make properties-long  forty times as many examples for every property of the gate"
	@echo "make faults       bad lines, kills, signals, shortages: a table of what came of each (15 minutes)"
	@echo "make soak         load for three minutes; SOAK_SECONDS=7200 or SOAK_MESSAGES=1000000 for longer"
	@echo "make audit        dependencies: what they are, their licences, known holes where the service can be reached"
	@echo "make secrets      look for secrets in tracked files"
	@echo "make mutants      change the gate in one place at a time and see whether the tests notice (long)"
	@echo "make instructions  how many instructions an exchange costs, against bench/instructions.json"
	@echo "make attack       every known attack over every transport, with and without Penstock; writes docs/attacks.md"
	@echo "make dist         wheel and sdist, built twice and compared; make share makes what is shipped beside the code"
	@echo "make release-check VERSION=x  one version everywhere, and nothing out of date"
	@echo "make real-clients  install published AI clients and see that they find wrapped servers (large downloads)"
	@echo "make eval-learning  how well what is learned finds injected calls; writes docs/learning.md"
	@echo "make real-world   published servers and clients with Penstock between them; writes docs/real-world.md"
	@echo "make before-release  all of the long forms, one after another (hours)"
	@echo "make clean        remove what the other commands made"

$(STAMP): pyproject.toml src/penstock/__init__.py
	@test -n "$(PYTHON)" || { echo "Penstock needs Python 3.11 or newer; none was found. Set PYTHON=/path/to/python3."; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' 2>&1 | grep -v '^WARNING: Location' || true
	@$(BIN)/python -c 'import penstock, pytest, mcp'
	@touch $@

environment: $(STAMP)

# Penstock and what it needs at run time, nothing for development: a few seconds.
.demo/.installed: pyproject.toml src/penstock/__init__.py
	@test -n "$(PYTHON)" || { echo "Penstock needs Python 3.11 or newer; none was found. Set PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -m venv .demo
	@.demo/bin/python -m pip install --quiet --disable-pip-version-check --editable . 2>&1 | grep -v '^WARNING: Location' || true
	@.demo/bin/python -c 'import penstock, re2'
	@touch $@

demo: .demo/.installed
	@.demo/bin/python examples/demo.py

demo-live: .demo/.installed
	@.demo/bin/python examples/demo_live.py

peers: $(STAMP)
	@PYTHON=$(PYTHON) sh scripts/peers_setup || echo "Tests with published Python servers will be skipped."
	@sh scripts/node_setup || echo "Tests that need Node will be skipped."

# Real processes can miss a deadline on two busy cores: what failed gets one more try, alone.
test: $(STAMP) peers
	@sh scripts/system_setup tests jq strace logrotate prometheus redis-server nginx chromium tmux
	$(BIN)/python -m pytest -n 3 --dist worksteal || $(BIN)/python -m pytest --last-failed

test-quick: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/unit tests/house

test-pythons: $(STAMP) peers
	@scripts/test_pythons

# What CI adds to `make test`: the other interpreters, without the tests that start the peers.
test-pythons-short: $(STAMP)
	@scripts/test_pythons --others tests/unit tests/house tests/properties

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

conformance: $(STAMP) peers
	$(BIN)/python scripts/conformance.py --write docs/fidelity.md

conformance-short: $(STAMP) peers
	@$(BIN)/python scripts/conformance.py --short || { code=$$?; [ $$code = 3 ] && echo "Without Node the conformance suites are skipped."; [ $$code = 3 ]; }

bench: $(STAMP)
	@sh scripts/bench_setup
	$(BIN)/python -m bench --write

bench-quick: $(STAMP)
	@sh scripts/bench_setup
	$(BIN)/python -m bench --quick --no-peers

bench-peers: $(STAMP)
	@PYTHON=$(PYTHON) sh scripts/bench_peers_setup

seeds: $(STAMP) peers
	$(BIN)/python scripts/seeds_page.py

json-verdicts: $(STAMP) peers
	$(BIN)/python scripts/json_verdicts.py

FUZZ_SECONDS ?= 60

# Atheris is in no other environment: the tests replay its findings without it.
.venv/.fuzz: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fuzz]' 2>&1 | grep -v '^WARNING: Location' || true
	@$(BIN)/python -c 'import atheris'
	@touch $@

fuzz: .venv/.fuzz
	$(BIN)/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

properties-long: $(STAMP)
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest --timeout 3600 tests/properties

faults: $(STAMP)
	$(BIN)/python -m trials.faults --json build/faults.json --markdown build/faults.md

soak: $(STAMP)
	$(BIN)/python -m trials.soak --seconds $(or $(SOAK_SECONDS),180) --messages $(or $(SOAK_MESSAGES),0) --json build/soak.json

mutants: $(STAMP)
	$(BIN)/python scripts/mutants --write docs/mutation.md

audit: $(STAMP)
	@$(BIN)/python scripts/audit_dependencies.py

secrets: $(STAMP)
	@$(BIN)/python scripts/find_secrets.py

# How well what is learned finds injected calls; writes the table in docs/learning.md.
eval-learning: $(STAMP)
	$(BIN)/python -m trials.learning --write docs/learning.md

# Published servers and clients with Penstock between them; writes docs/real-world.md. They are installed into
# PENSTOCK_REAL_WORLD, or a folder in the user's cache.
real-world: $(STAMP)
	$(BIN)/python -m trials.real_world --write docs/real-world.md

# The hot path, in instructions: the same whatever else the machine does. Code 3: no valgrind here.
instructions: $(STAMP)
	@$(BIN)/python -m bench.instructions || { code=$$?; [ $$code = 3 ]; }

# How often the tool search finds what is wanted.
eval-search: $(STAMP)
	@$(BIN)/python scripts/eval_search.py

attack: $(STAMP)
	@sh scripts/system_setup attack nginx haproxy chromium
	$(BIN)/python -m trials.attack --jobs 2 --write docs/attacks.md

# Completions, man page, bill of materials, registry entry and formula follow the code.
share: $(STAMP)
	@$(BIN)/python scripts/make_share.py

dist: share
	@$(BIN)/python scripts/make_dist.py

release-check: $(STAMP)
	@$(BIN)/python scripts/release_check.py "$(VERSION)"

# Hundreds of megabytes from npm, so not among the tests that run every time.
real-clients: $(STAMP)
	@sh scripts/real_clients_setup
	$(BIN)/python -m pytest -q -rs tests/e2e/home/test_real_clients.py

# What is too long for CI.
before-release: conformance attack faults
	$(MAKE) soak SOAK_MESSAGES=1000000
	$(MAKE) soak SOAK_SECONDS=7200
	$(MAKE) fuzz FUZZ_SECONDS=3600
	$(MAKE) properties-long
	$(MAKE) mutants
	$(MAKE) real-world eval-learning eval-search seeds
	$(MAKE) bench-peers bench

clean:
	rm -rf .demo .fuzz .mutants .venv .venv-* .peers .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
