"""Writes the tables of scenarios with Hudi on Spark: ``python -m benchmarks.make_tables standard``.

Spark is installed into a virtual environment of its own and used through its ``spark-sql`` shell, which fetches the
Hudi bundle by its Maven coordinates. A table is in ``<cache>/<scenario>/table``, beside the SQL that wrote it, and is
written again only when that SQL changes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.scenarios import QTY_VALUES, SCENARIOS, Scenario, row_key

CACHE_VARIABLE = "HUDI_BRIDGE_BENCHMARKS"
SPARK_REQUIREMENT = "pyspark==3.5.*"
HUDI_BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"

SPARK_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}

HUDI_SETTINGS = {
    "hoodie.embed.timeline.server": "false",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    # one base file per partition, whatever the number of rows
    "hoodie.parquet.max.file.size": str(1 << 40),
    # changes go to a single log block each and stay there
    "hoodie.compact.inline": "false",
    "hoodie.logfile.data.block.format": "avro",
    "hoodie.logfile.data.block.max.size": str(1 << 30),
}


def default_cache() -> Path:
    """The folder of the tables: ``$HUDI_BRIDGE_BENCHMARKS``, or one in the user's cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "hudi-bridge" / "benchmarks"


def table_path(cache: Path, scenario: Scenario) -> Path:
    return cache / scenario.name / "table"


def _rows(scenario: Scenario, *, step: int, version: int) -> str:
    """A query for every ``step``-th row; values are hashes of row number and version, the same in every run."""
    noise = f"xxhash64(id, {version})"
    prefix = row_key(0).rstrip("0")
    return f"""SELECT
  printf('{prefix}%09d', id) AS id,
  CAST({version} AS BIGINT) AS ts,
  concat('customer ', pmod({noise}, 50000)) AS name,
  pmod({noise}, 1000000) / 100.0D AS price,
  CAST(pmod(shiftright({noise}, 20), {QTY_VALUES}) AS INT) AS qty,
  concat('version {version}, ', substr(md5(CAST(id AS STRING)), 1, 16)) AS note,
  timestamp_micros(1700000000000000 + {version} * 86400000000 + id * 1000003) AS updated,
  concat('p', pmod(xxhash64(id), {scenario.partitions})) AS part
FROM range(0, {scenario.rows}, {step}, 1)"""


def table_sql(scenario: Scenario, path: Path) -> str:
    """The statements that write the table: one bulk insert, one upsert, one delete."""
    settings = "\n".join(f"SET {key}={value};" for key, value in HUDI_SETTINGS.items())
    digits = len(row_key(0).rstrip("0")) + 1
    return f"""{settings}
CREATE TABLE trades (
  id STRING, ts BIGINT, name STRING, price DOUBLE, qty INT, note STRING, updated TIMESTAMP, part STRING
) USING hudi
TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts')
PARTITIONED BY (part)
LOCATION '{path}';
SET hoodie.spark.sql.insert.into.operation=bulk_insert;
INSERT INTO trades {_rows(scenario, step=1, version=1)};
SET hoodie.spark.sql.insert.into.operation=upsert;
INSERT INTO trades {_rows(scenario, step=scenario.update_every, version=2)};
DELETE FROM trades WHERE CAST(substr(id, {digits}) AS BIGINT) % {scenario.delete_every} = 5;
"""


def _spark_home(cache: Path) -> Path:
    """The virtual environment with Spark, created on first use."""
    home = cache / "spark-3.5"
    if not (home / "bin" / "spark-sql").exists():
        venv.create(home, with_pip=True, clear=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", SPARK_REQUIREMENT]
        subprocess.run(pip, check=True)
    return home


def _spark_environment(home: Path) -> dict[str, str]:
    """The environment variables for Spark's scripts, which look for Spark through the first ``python3``."""
    environment = {key: value for key, value in os.environ.items() if key not in {"SPARK_HOME", "PYTHONPATH"}}
    environment["PATH"] = os.pathsep.join((str(home / "bin"), environment["PATH"]))
    return environment


def make_table(scenario: Scenario, cache: Path) -> Path:
    """The path of the scenario's table; writes it unless the same statements have written it before."""
    path = table_path(cache, scenario)
    recipe = path.with_name("table.sql")
    statements = table_sql(scenario, path)
    if recipe.exists() and recipe.read_text() == statements:
        return path
    shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir(parents=True)
    home = _spark_home(cache)
    draft = path.with_name("draft.sql")
    draft.write_text(statements)
    command = [str(home / "bin" / "spark-sql"), "--packages", HUDI_BUNDLE]
    command += [part for item in SPARK_SETTINGS.items() for part in ("--conf", "=".join(item))]
    subprocess.run([*command, "-f", str(draft)], check=True, cwd=path.parent, env=_spark_environment(home))
    # renamed last: a table without this file counts as unfinished
    draft.rename(recipe)
    return path


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Write the benchmark tables with Hudi on Spark.")
    parser.add_argument("scenarios", nargs="+", choices=SCENARIOS)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    options = parser.parse_args(arguments)
    for name in options.scenarios:
        print(make_table(SCENARIOS[name], options.cache.resolve()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
