# Everything one can do here. The first use of any target makes .venv from the hashed lock.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ORACLE ?= .venv-oracle
PYTEST := $(BIN)/pytest -n 2 --doctest-modules tests models search service

.PHONY: help install run test test-long test-oracle check format lint types openapi readme lock bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv and install into it what the lock holds

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "layout-search needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --require-hashes -r requirements.lock
	$(BIN)/pip install --no-deps --no-build-isolation -e .
	@touch $@

run: $(STAMP) ## serve, ask the example question and print its answer (ONCE=1 stops after it)
	@$(BIN)/python -m service.demo $(if $(ONCE),--once)

test: $(STAMP) ## tests that take seconds each, about five minutes
	$(PYTEST) -m "not long"

test-long: $(STAMP) ## tests that take minutes
	$(BIN)/pytest tests -m long

$(ORACLE)/.installed: $(STAMP)
	$(PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/pip install --require-hashes -r requirements.lock
	$(ORACLE)/bin/pip install --no-deps --no-build-isolation -e .
	$(ORACLE)/bin/pip install -e '.[oracle]'
	@touch $@

test-oracle: $(ORACLE)/.installed ## parameter counts against the transformers package, in a .venv of its own
	LAYOUT_SEARCH_ORACLE=1 $(ORACLE)/bin/pytest -n 2 tests/models/oracle

check: $(STAMP) ## format, lint, types, imports, the OpenAPI snapshot, then the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/layout-search openapi | diff -u openapi/openapi.json - || { \
	  echo "openapi/openapi.json is not what the service says; 'make openapi' writes it." >&2; exit 1; }
	@$(MAKE) --no-print-directory test

format: $(STAMP) ## put the code in its one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## lint, and check who imports whom
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

openapi: $(STAMP) ## write openapi/openapi.json
	$(BIN)/layout-search openapi --output openapi/openapi.json

readme: $(STAMP) ## write the README's table of places anew, as its command prints it
	$(BIN)/python -m tests.service.readme_table

lock: ## write requirements.lock anew (needs uv)
	printf 'hatchling\neditables\n' | uv pip compile pyproject.toml - --extra dev --upgrade \
	  --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate -o requirements.lock

bench: $(STAMP) ## accuracy against published runs, and speed
	@set -e; for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script; done

clean: ## remove what the other targets made
	rm -rf $(VENV) $(ORACLE) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
