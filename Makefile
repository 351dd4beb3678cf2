# Every target sets up what it needs. A fresh machine needs make and Python 3.11 or newer, nothing else.

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal
BENCH ?= standard
# One Spark session at a time, each in a process of its own beside the tests: they are not spread over the cores.
SPARK_TESTS := tests/connectors/spark
# Likewise the tests with a Trino server (JDK 24 or newer).
TRINO_TESTS := tests/integration
SPARK35 := .venv-spark35
SPARK35_INSTALLED := $(SPARK35)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo check lint types test spark trino integration golden matrix bench format clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

demo: $(INSTALLED) ## Show what a table says with its logs, and what without
	@$(BIN)/python examples/demo.py

check: lint types $(SPARK35_INSTALLED) ## All that has to pass before a change is done; CI runs this and nothing else
	$(PYTEST) --ignore=$(SPARK_TESTS) --ignore=$(TRINO_TESTS) --cov --cov-report=
	$(BIN)/python -m pytest $(SPARK_TESTS) --cov --cov-append --cov-report=
	$(BIN)/python -m pytest $(TRINO_TESTS) --cov --cov-append --cov-report=term:skip-covered

lint: $(INSTALLED) ## Check format, style and who imports whom
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports

types: $(INSTALLED) ## Check types, strictly
	$(BIN)/mypy

test: $(INSTALLED) ## Run all tests but the golden tables and those of Spark and Trino
	$(PYTEST) --ignore=tests/test_golden.py --ignore=$(SPARK_TESTS) --ignore=$(TRINO_TESTS)

spark: $(INSTALLED) $(SPARK35_INSTALLED) ## Run the tests of the Spark connector (JDK 17 or newer)
	$(BIN)/python -m pytest $(SPARK_TESTS)

trino: $(INSTALLED) ## Run a Trino server on loopback, fetched once (JDK 24 or newer)
	$(BIN)/python -m tests.integration.trino_server

integration: $(INSTALLED) $(SPARK35_INSTALLED) ## Run the tests with a Trino server, fetched once (JDK 24 or newer)
	$(BIN)/python -m pytest $(TRINO_TESTS)

golden: $(INSTALLED) ## Compare the golden tables with the answers of Hudi, as Arrow
	$(PYTEST) tests/test_golden.py -m "not engine"

matrix: $(INSTALLED) $(SPARK35_INSTALLED) ## Compare the golden tables through every engine; print the counts
	$(PYTEST) tests/test_golden.py tests/connectors/iceberg/test_iceberg_golden.py --matrix
	$(BIN)/python -m pytest $(SPARK_TESTS)/test_spark_golden.py $(SPARK_TESTS)/test_spark_iceberg.py --matrix
	$(BIN)/python -m pytest $(TRINO_TESTS)/test_trino_iceberg.py $(TRINO_TESTS)/test_trino_sql_route.py -k golden --matrix

bench: $(INSTALLED) ## Time reads beside the Rust reader (BENCH=standard; Java needed once, to write the tables)
	$(BIN)/python -m benchmarks.run $(BENCH)

format: $(INSTALLED) ## Format the code and sort its imports
	$(BIN)/ruff format
	$(BIN)/ruff check --select I --fix

clean: ## Remove everything that make and the tools created
	rm -rf $(VENV) $(SPARK35) .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage* build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@python="$(PYTHON)"; \
	for candidate in $${python:-python3.13 python3.12 python3.11 python3 python}; do \
		"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		test -x $(BIN)/python || "$$candidate" -m venv $(VENV); \
		break; \
	done; \
	test -x $(BIN)/python || { echo 'Python 3.11 or newer is needed: install it, or name it by PYTHON=/path/to/python' >&2; exit 1; }
	@echo "Installing Hudi Bridge, the engines it reads for and the development tools into $(VENV), once: about 1.5 GB, some minutes"
	$(BIN)/python -m pip install --quiet "$$(grep '^pip==' constraints.txt)"
	@# setuptools warns of every editable install.
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -c constraints.txt --build-constraint constraints.txt \
		-e ".[cli,duckdb,iceberg,spark]" --group dev
	@touch $@

# PySpark 3.5, which Hudi and Iceberg have jars for: reads golden tables itself, runs Hudi as a writer and Iceberg as a reader.
$(SPARK35_INSTALLED): $(INSTALLED)
	@for candidate in python3.11 python3.12 $(BIN)/python; do \
		"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		test -x $(SPARK35)/bin/python || "$$candidate" -m venv $(SPARK35); \
		break; \
	done
	grep -v '^py4j==\|^pyspark==' constraints.txt > $(SPARK35)/constraints.txt
	$(SPARK35)/bin/python -m pip install --quiet -c $(SPARK35)/constraints.txt \
		fastavro numpy pandas pyarrow pyroaring pyspark==3.5.9 setuptools
	$(BIN)/python -m benchmarks.hudi_bundle
	$(BIN)/python -m tests.connectors.spark.iceberg_runtime
	@touch $@
