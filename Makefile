# Every target sets up what it needs. A fresh machine needs make and Python 3.11 or newer, nothing else.

# The newest Python at hand, unless one is named. Shims of pyenv may be found and not run.
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
DEPENDENCIES := pyproject.toml constraints.txt tools/environment.py
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# In small pieces and in order, so that what fails soonest is run first.
SPREAD := -n auto --dist load --maxschedchunk 40
PYTEST := $(BIN)/python -m pytest $(SPREAD)
# Of the tests, those that take little time and no engine but Arrow.
QUICK := not engine and not jvm and not browser and not long
# Playwright keeps an event loop running, which other tests have no use for.
BROWSER_TESTS := tests/tools/report_in_browser tests/project/test_site.py
# The size of make bench: small (about 3 minutes), standard (about 15) or large.
SIZE ?= standard
# How long make soak and make random write and read.
MINUTES ?= 10
# The first table that make random draws: other ones at each time, unless it is given.
SEED ?= $(shell date +%y%m%d%H%M)
# Each process of tests has a Spark session of its own.
SPARK_TESTS := tests/connectors/spark
# Tests with a Trino or a Presto server, or with HDFS, are not spread: they share the servers.
TRINO_TESTS := tests/integration
SPARK35 := .venv-spark35
SPARK35_INSTALLED := $(SPARK35)/.installed
CORE := .venv-core
DEMO := .venv-demo
SITE := .venv-docs
LOWEST := .venv-lowest
LIBRARIES := .venv-libraries
DBT := .venv-dbt
# Releases of DuckDB before the one that the other tests have.
OLDER_DUCKDBS := .venv-duckdb14 .venv-duckdb15
# Connectors to libraries that have an environment of their own, one after the other; what these warn of is theirs.
LIBRARY_TESTS := tests/connectors/check_daft.py tests/connectors/check_dask.py tests/connectors/check_ray.py -W default
# scan_iceberg of Polars takes files without field ids from 2.1 on.
NEEDS_NEW_POLARS := tests/service/test_iceberg_rest.py::test_polars_reads_the_snapshot_of_a_time_or_fails
ENGINES := full-spark full-trino dist full-libraries full-browser duckdb dbt
DUCKDB_TESTS := tests/connectors/duckdb tests/properties/test_duckdb_properties.py tests/cli/test_sql.py

# Without byte code, each of some hundred processes that tests start would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo check full lint types test coverage jdks browser screenshot spark trino presto integration golden matrix bench bench-check format clean docs lowest libraries soak random $(ENGINES)

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

demo: $(DEMO)/.installed ## Show what a table says with its logs, and what without
	@$(DEMO)/bin/hudi-bridge demo
	@echo 'The command is $(DEMO)/bin/hudi-bridge'

check: lint types ## Check style, types, units, properties, and the golden tables as Arrow; Python is all it needs
	$(PYTEST) -m "$(QUICK)" --hypothesis-profile=quick

full: jdks browser lint types docs $(SPARK35_INSTALLED) $(LIBRARIES)/.installed ## All that has to pass: more examples, every engine, and the wheel (JDKs, Chromium); CI runs this
	$(PYTEST) -m "not jvm and not browser"
	@$(MAKE) --no-print-directory --jobs=2 $(addprefix --,$(filter output-sync,$(.FEATURES))) $(ENGINES)

# The parts of make full that often wait for a server or a process: two at a time, the longest first.
full-spark:
	$(BIN)/python -m pytest -n 2 --dist loadfile $(SPARK_TESTS) -m jvm
full-trino:
	$(BIN)/python -m pytest $(TRINO_TESTS) -m jvm
full-browser:
	$(BIN)/python -m pytest $(BROWSER_TESTS) -m browser
full-libraries:
	$(LIBRARIES)/bin/python -m pytest $(LIBRARY_TESTS)

lint: $(INSTALLED) ## Check format, style and who imports whom
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports

types: $(INSTALLED) ## Check types, strictly
	$(BIN)/mypy

test: $(CORE)/.installed ## Run the quick tests that need no extra, with the dependencies of the core alone
	$(CORE)/bin/python -m pytest $(SPREAD) --core -m "$(QUICK) and not extra and not heavy" --hypothesis-profile=quick \
		--ignore=tests/table/test_golden.py --ignore=tests/properties --ignore=tests/robustness

browser: $(INSTALLED) ## Name the Chromium that opens pages; installs it where this is root on Debian, or says what is missing
	@$(BIN)/python -m tests.support.browser

screenshot: browser ## Draw the picture of a page in docs anew
	$(BIN)/python -m tools.screenshot

jdks: $(INSTALLED) ## Name the JDK that each engine runs on, or what is missing
	@$(BIN)/python -m tests.support.jdks

spark: $(INSTALLED) ## Run the tests of the Spark connector (JDK 17 or newer)
	@$(BIN)/python -m tests.support.jdks spark
	@$(MAKE) --no-print-directory $(SPARK35_INSTALLED)
	$(BIN)/python -m pytest $(SPARK_TESTS)

soak: $(INSTALLED) ## Compare all that readers see beside real writers of Hudi (MINUTES=10; JDK 17 or newer)
	@$(BIN)/python -m tests.support.jdks spark
	@$(MAKE) --no-print-directory $(SPARK35_INSTALLED)
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

random: $(INSTALLED) ## Compare what Hudi says of tables written at random (MINUTES=10, RELEASE=1.2.0 or all; JDK 17 or newer)
	@$(BIN)/python -m tests.support.jdks spark
	@$(MAKE) --no-print-directory $(SPARK35_INSTALLED)
	$(BIN)/python -m tests.random --minutes $(MINUTES) --seed $(SEED) $(if $(RELEASE),--release $(RELEASE))

trino: $(INSTALLED) ## Run a Trino server on loopback, fetched once (JDK 24 or newer)
	$(BIN)/python -m tests.integration.trino_server

presto: $(INSTALLED) ## Run a Presto server, reached on loopback, fetched once (JDK 11, Linux)
	$(BIN)/python -m tests.integration.presto_server

integration: $(INSTALLED) ## Run the tests with a Trino and a Presto server, fetched once (JDK 24 or newer, Linux)
	@$(BIN)/python -m tests.support.jdks trino presto
	@$(MAKE) --no-print-directory $(SPARK35_INSTALLED) $(LIBRARIES)/.installed
	$(BIN)/python -m pytest $(TRINO_TESTS)

coverage: $(INSTALLED) ## Show the lines and branches that no test without a JVM and a browser reaches
	$(PYTEST) -m "not jvm and not browser" --cov --cov-report=term:skip-covered

golden: $(INSTALLED) ## Compare the golden tables with the answers of Hudi, as Arrow
	$(PYTEST) tests/table/test_golden.py

matrix: jdks $(SPARK35_INSTALLED) $(LIBRARIES)/.installed ## Compare the golden tables through every engine; print the counts (JDKs)
	$(PYTEST) tests/table/test_golden.py tests/connectors/duckdb/test_duckdb_golden.py \
		tests/connectors/test_polars_golden.py tests/connectors/iceberg/test_iceberg_golden.py --matrix
	$(LIBRARIES)/bin/python -m pytest $(LIBRARY_TESTS) -k hudi --matrix
	$(BIN)/python -m pytest -n 2 $(SPARK_TESTS)/test_spark_golden.py $(SPARK_TESTS)/test_spark_other_golden.py \
		$(SPARK_TESTS)/test_spark_iceberg.py --matrix
	$(BIN)/python -m pytest $(TRINO_TESTS)/test_trino_iceberg.py $(TRINO_TESTS)/test_trino_sql_route.py \
		$(TRINO_TESTS)/test_trino_unmerged.py -k golden --matrix
	$(BIN)/python -m pytest $(TRINO_TESTS)/test_presto_iceberg.py $(TRINO_TESTS)/test_presto_sql_route.py -k golden --matrix

bench: $(SPARK35_INSTALLED) ## Time reads beside other readers (SIZE=small, standard or large; JDK; the first run writes tables)
	$(BIN)/python -m benchmarks.run --size $(SIZE)

bench-check: $(SPARK35_INSTALLED) ## Fail where a ratio to other readers is worse than recorded by more than a quarter (JDK once)
	$(BIN)/python -m benchmarks.check

format: $(INSTALLED) ## Format the code and sort its imports
	$(BIN)/ruff format
	$(BIN)/ruff check --select I --fix

clean: ## Remove everything that make and the tools created
	rm -rf $(VENV) .venv-uv $(CORE) $(SPARK35) $(SITE) $(LOWEST) $(LOWEST)-core $(LIBRARIES) $(DBT) $(OLDER_DUCKDBS) $(DEMO) hudi-bridge-demo .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage* build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

docs: $(SITE)/.installed ## Build the site from README, docs and docstrings into build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

dist: ## Build sdist and wheel; try the wheel in fresh environments, bare and with each extra
	"$(PYTHON)" -m tools.try_wheel

lowest: $(LOWEST)/.installed $(LOWEST)-core/.installed ## Test with the lowest versions that pyproject.toml promises, on the oldest Python at hand
	$(LOWEST)-core/bin/python -m pytest $(SPREAD) --core -m "$(QUICK) and not extra and not heavy" --hypothesis-profile=quick \
		--ignore=tests/properties --ignore=tests/robustness --ignore=tests/project
	$(LOWEST)/bin/python -m pytest $(SPREAD) --beyond-core --without grimp --without playwright --without pyspark \
		-m "$(QUICK) and not heavy" --hypothesis-profile=quick --ignore=$(TRINO_TESTS) --ignore=tests/robustness \
		--ignore=tests/properties --ignore=tests/project --ignore=tests/random --ignore=tests/table/test_golden.py \
		$(NEEDS_NEW_POLARS:%=--deselect %)
	$(LOWEST)/bin/python -m pytest $(LIBRARY_TESTS)

duckdb: $(OLDER_DUCKDBS:=/.installed) ## Run the tests of views with DuckDB 1.4 and 1.5, and its iceberg extension with the service
	@for environment in $(OLDER_DUCKDBS); do \
		$$environment/bin/python -m pytest $(SPREAD) $(DUCKDB_TESTS) -m "not long" --hypothesis-profile=quick || exit 1; done
	.venv-duckdb15/bin/python -m pytest tests/service/check_duckdb_iceberg.py

dbt: $(DBT)/.installed ## Run the tests of dbt with its example, and the blocks of docs/orchestration.md in Dagster and Airflow
	$(DBT)/bin/python -m pytest -n 2 tests/connectors/check_dbt.py tests/connectors/check_orchestration.py -W default

libraries: $(LIBRARIES)/.installed $(INSTALLED) ## Run the tests of Daft, Dask and Ray, and the blocks of docs/with-other-libraries.md
	$(LIBRARIES)/bin/python -m pytest $(LIBRARY_TESTS)
	$(BIN)/python -m pytest $(TRINO_TESTS)/test_library_snippets.py

# What each environment holds, and by which Python, is in tools/environment.py.
$(VENV)/.installed $(CORE)/.installed $(DEMO)/.installed $(SITE)/.installed $(LOWEST)/.installed $(LOWEST)-core/.installed $(LIBRARIES)/.installed $(DBT)/.installed $(OLDER_DUCKDBS:=/.installed): $(DEPENDENCIES)
	@test -n "$(PYTHON)" || { echo 'Python 3.11 or newer is needed: install it, or name it by PYTHON=/path/to/python' >&2; exit 1; }
	@"$(PYTHON)" -m tools.environment $(@D)
	@touch $@

# Fetches its jars by modules that run in the other environment.
$(SPARK35)/.installed: $(DEPENDENCIES) $(INSTALLED)
	@"$(PYTHON)" -m tools.environment $(@D)
	@touch $@
