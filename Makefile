# One command a task. Each creates what it needs: .venv for Penstock and its tests, .peers for the published
# MCP servers and clients that the tests talk to.

PYTHON ?= $(shell scripts/find_python)
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help demo test test-quick lint types clean conformance conformance-short peers mutants audit secrets

help:
	@echo "make demo         see tools vanish, with the bundled sample server"
	@echo "make test         run the tests"
	@echo "make lint         ruff, style and layout"
	@echo "make types        mypy, strict"
	@echo "make conformance  the official MCP conformance suites, direct and through Penstock"
	@echo "make audit        dependencies: what they are, their licences, known holes where the service can be reached"
	@echo "make secrets      look for secrets in tracked files"
	@echo "make mutants      change the gate in one place at a time and see whether the tests notice (long)"
	@echo "make clean        remove what the other commands made"

$(STAMP): pyproject.toml src/penstock/__init__.py
	@test -n "$(PYTHON)" || { echo "Penstock needs Python 3.11 or newer; none was found. Set PYTHON=/path/to/python3."; exit 1; }
	@echo "Setting up .venv with $(PYTHON) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' 2>&1 | grep -v '^WARNING: Location' || true
	@$(BIN)/python -c 'import penstock, pytest, mcp'
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

peers: $(STAMP)
	@PYTHON=$(PYTHON) sh scripts/peers_setup || echo "Tests with published Python servers will be skipped."
	@sh scripts/node_setup || echo "Tests that need Node will be skipped."

# Real processes can miss a deadline on two busy cores: what failed gets one more try, alone.
test: $(STAMP) peers
	$(BIN)/python -m pytest -n 2 --dist worksteal || $(BIN)/python -m pytest --last-failed

test-quick: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/unit tests/house

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

conformance: $(STAMP) peers
	$(BIN)/python scripts/conformance.py --write docs/fidelity.md

conformance-short: $(STAMP) peers
	@$(BIN)/python scripts/conformance.py --short || { code=$$?; [ $$code = 3 ] && echo "Without Node the conformance suites are skipped."; [ $$code = 3 ]; }

mutants: $(STAMP)
	$(BIN)/python scripts/mutants --write docs/mutation.md

audit: $(STAMP)
	@$(BIN)/python scripts/audit_dependencies.py

secrets: $(STAMP)
	@$(BIN)/python scripts/find_secrets.py

clean:
	rm -rf .venv .peers .mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
