"""The SQL that writes tables with Hudi on Spark: a bulk insert, and changes that stay in logs.

Values are hashes of row number and version, the same in every run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scenarios import QTY_VALUES, Scenario, row_key

SETTINGS = {
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
NO_METADATA_TABLE = {"hoodie.metadata.enable": "false"}
"""For tables whose files are multiplied: a metadata table would not know of the copies."""
PARTIAL_COMMITS = 10
"""The commits of a table with many log blocks."""
WIDE_COLUMNS = 500
_LONG_TEXT = "concat_ws('', transform(sequence(1, 64), n -> md5(concat(id, n, {version}))))"
_NESTED = """named_struct(
    'number', CAST(id AS INT),
    'items', transform(sequence(1, CAST(1 + id % 3 AS INT)), n -> named_struct(
      'sku', concat('sku ', pmod(xxhash64(id, n, {version}), 5000)), 'amount', n,
      'tags', array(concat('tag ', pmod(xxhash64(id, n), 100)), 'version {version}'))),
    'by_name', map('first', named_struct('x', id / 8D, 'y', 'version {version}'),
      'last', named_struct('x', 0D, 'y', '')))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A table by the SQL that writes it; ``{path}`` in it is the table's folder."""

    name: str
    sql: str

    def statements(self, path: Path) -> str:
        """The SQL for a table in a folder."""
        return self.sql.replace("{path}", str(path))


def of_scenario(scenario: Scenario) -> Recipe:
    """One bulk insert, one upsert, one delete."""
    rows, partitions = scenario.rows, scenario.partitions
    changes = [upsert(rows, every=scenario.update_every, partitions=partitions), delete(scenario.delete_every)]
    return Recipe(name=scenario.name, sql=trades(rows, changes, partitions=partitions))


def trades(
    rows: int,
    changes: Sequence[str],
    *,
    partitions: int = 1,
    settings: Mapping[str, str] | None = None,
    operation: str = "bulk_insert",
) -> str:
    """A table of 8 columns, or 13 with Hudi's own, and its changes."""
    columns = "id STRING, ts BIGINT, name STRING, price DOUBLE, qty INT, note STRING, updated TIMESTAMP"
    first = f"INSERT INTO trades {trade_rows(rows, partitions=partitions)};"
    return _table(columns, first, changes, settings or {}, operation)


def trade_rows(rows: int, *, start: int = 0, every: int = 1, version: int = 1, partitions: int = 1) -> str:
    """A query for every so many rows of a table of trades."""
    noise = f"xxhash64(id, {version})"
    return f"""SELECT
  printf('{_prefix()}%09d', id) AS id,
  CAST({version} AS BIGINT) AS ts,
  concat('customer ', pmod({noise}, 50000)) AS name,
  pmod({noise}, 1000000) / 100.0D AS price,
  CAST(pmod(shiftright({noise}, 20), {QTY_VALUES}) AS INT) AS qty,
  concat('version {version}, ', substr(md5(CAST(id AS STRING)), 1, 16)) AS note,
  timestamp_micros(1700000000000000 + {version} * 86400000000 + id * 1000003) AS updated,
  concat('p', pmod(xxhash64(id), {partitions})) AS part
FROM range({start}, {rows}, {every}, 1)"""


def upsert(rows: int, *, every: int, start: int = 0, version: int = 2, partitions: int = 1) -> str:
    """Another version of every so many rows."""
    chosen = trade_rows(rows, start=start, every=every, version=version, partitions=partitions)
    return f"INSERT INTO trades {chosen};"


def upserts(rows: int, *, every: int) -> list[str]:
    """The same number of versions, of other rows each, in ``PARTIAL_COMMITS`` commits."""
    return [
        upsert(rows, every=every * PARTIAL_COMMITS, start=number, version=2 + number)
        for number in range(PARTIAL_COMMITS)
    ]


def delete(every: int) -> str:
    """Deletes one row in so many."""
    return f"DELETE FROM trades WHERE CAST(substr(id, {len(_prefix()) + 1}) AS BIGINT) % {every} = 5;"


def partial_update(rows: int, *, every: int) -> str:
    """New prices, and nothing else, of every so many rows."""
    return f"""MERGE INTO trades t USING (
  SELECT printf('{_prefix()}%09d', id) AS id, CAST(2 AS BIGINT) AS ts, id / 4D AS price, 'p0' AS part
  FROM range(0, {rows}, {every}, 1)
) s ON t.id = s.id AND t.part = s.part WHEN MATCHED THEN UPDATE SET price = s.price, ts = s.ts;"""


def evolving(rows: int) -> str:
    """Versions of a tenth of the rows before and after a column was renamed and another one widened."""
    evolution = {
        "hoodie.schema.on.read.enable": "true",
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    }
    changes = [
        upsert(rows, every=10),
        "ALTER TABLE trades RENAME COLUMN note TO remark;",
        "ALTER TABLE trades ALTER COLUMN qty TYPE BIGINT;",
        upsert(rows, every=10, start=5, version=3),
    ]
    return trades(rows, changes, settings=evolution)


def wide(rows: int) -> str:
    """A table of ``WIDE_COLUMNS`` columns of numbers and texts; a tenth of its rows is updated."""
    names = [f"c{number:03d}" for number in range(WIDE_COLUMNS)]
    kinds = ("BIGINT", "DOUBLE", "STRING", "INT")
    columns = ", ".join(f"{name} {kinds[number % 4]}" for number, name in enumerate(names))
    values = (
        "pmod(xxhash64(id, {number}, {version}), 100000)",
        "pmod(xxhash64(id, {number}, {version}), 1000) / 8D",
        "concat('text ', pmod(xxhash64(id, {number}, {version}), 1000))",
        "CAST(pmod(xxhash64(id, {number}, {version}), 1000) AS INT)",
    )
    made = ", ".join(values[number % 4].replace("{number}", str(number)) for number in range(WIDE_COLUMNS))
    return _shaped(rows, columns, made)


def nested(rows: int) -> str:
    """Structs that hold lists of structs with lists, and maps of structs."""
    items = "items: ARRAY<STRUCT<sku: STRING, amount: INT, tags: ARRAY<STRING>>>"
    by_name = "by_name: MAP<STRING, STRUCT<x: DOUBLE, y: STRING>>"
    return _shaped(rows, f"body STRUCT<number: INT, {items}, {by_name}>, price DOUBLE", f"{_NESTED}, id / 8D")


def long_text(rows: int) -> str:
    """A text of 2 KB in each row, which does not compress well."""
    return _shaped(rows, "body STRING, price DOUBLE", f"{_LONG_TEXT}, id / 8D")


def _shaped(rows: int, columns: str, values: str) -> str:
    def some(every: int, version: int) -> str:
        made = values.replace("{version}", str(version))
        key = f"printf('{_prefix()}%09d', id)"
        chosen = f"{key}, CAST({version} AS BIGINT), {made}, 'p0'"
        return f"INSERT INTO trades SELECT {chosen} FROM range(0, {rows}, {every}, 1);"

    return _table(f"id STRING, ts BIGINT, {columns}", some(1, 1), [some(10, 2)], {}, "bulk_insert")


def _table(columns: str, first: str, changes: Sequence[str], settings: Mapping[str, str], operation: str) -> str:
    chosen = "\n".join(f"SET {key}={value};" for key, value in {**SETTINGS, **settings}.items())
    written = "\n".join(changes)
    return f"""{chosen}
CREATE TABLE trades (
  {columns}, part STRING
) USING hudi
TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts')
PARTITIONED BY (part)
LOCATION '{{path}}';
SET hoodie.spark.sql.insert.into.operation={operation};
{first}
SET hoodie.spark.sql.insert.into.operation=upsert;
{written}
"""


def _prefix() -> str:
    return row_key(0).rstrip("0")
