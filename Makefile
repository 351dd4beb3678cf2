# Every target sets up what it needs. A fresh machine needs make and Python 3.11 or newer, nothing else.

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal
BENCH ?= standard

.DEFAULT_GOAL := help
.PHONY: help demo check lint types test golden matrix bench format clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

demo: $(INSTALLED) ## Show what a table says with its logs, and what without
	@$(BIN)/python examples/demo.py

check: lint types ## All that has to pass before a change is done; CI runs this and nothing else
	$(PYTEST) --cov --cov-report=term:skip-covered

lint: $(INSTALLED) ## Check format, style and who imports whom
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports

types: $(INSTALLED) ## Check types, strictly
	$(BIN)/mypy

test: $(INSTALLED) ## Run all tests but the golden tables
	$(PYTEST) --ignore=tests/test_golden.py

golden: $(INSTALLED) ## Compare the golden tables with the answers of Hudi, as Arrow
	$(PYTEST) tests/test_golden.py -m "not engine"

matrix: $(INSTALLED) ## Compare the golden tables through every engine; print the counts
	$(PYTEST) tests/test_golden.py --matrix

bench: $(INSTALLED) ## Time reads beside the Rust reader (BENCH=standard; Java needed once, to write the tables)
	$(BIN)/python -m benchmarks.run $(BENCH)

format: $(INSTALLED) ## Format the code and sort its imports
	$(BIN)/ruff format
	$(BIN)/ruff check --select I --fix

clean: ## Remove everything that make and the tools created
	rm -rf $(VENV) .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage* build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@python="$(PYTHON)"; \
	for candidate in $${python:-python3.13 python3.12 python3.11 python3 python}; do \
		"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		test -x $(BIN)/python || "$$candidate" -m venv $(VENV); \
		break; \
	done; \
	test -x $(BIN)/python || { echo 'Python 3.11 or newer is needed: install it, or name it by PYTHON=/path/to/python' >&2; exit 1; }
	$(BIN)/python -m pip install --quiet "$$(grep '^pip==' constraints.txt)"
	@# setuptools warns of every editable install.
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -c constraints.txt --build-constraint constraints.txt \
		-e ".[cli,duckdb]" --group dev
	@touch $@

