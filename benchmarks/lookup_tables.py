"""Tables of 100 or 1,000 file slices for look-ups: without indexes, or with those that Hudi writes.

Both have the same rows. Keys are spread, so that all key ranges overlap; ``ts`` is clustered, so that few base files
have a range of it. A tenth of the slices has a log, with new versions of their first rows.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.make_tables import make_tables
from benchmarks.recipes import Recipe
from tests.support.table_writer import META_FIELDS, TableWriter, at, key_index

ROWS_IN_SLICE = 2_000
KEYS_IN_LOG = 20
SLICES_WITH_LOG = 10
"""Every so many slices have a log."""
TS_IN_LOG = 10**9
_BLOOM_BITS = ROWS_IN_SLICE * 29
_PROPERTIES = {
    "hoodie.table.keygenerator.type": "NON_PARTITION",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
}
_SQL = """\
SET hoodie.embed.timeline.server=false;
SET hoodie.compact.inline=false;
SET hoodie.logfile.data.block.format=avro;
SET hoodie.metadata.enable=true;
SET hoodie.metadata.index.column.stats.enable=true;
SET hoodie.metadata.index.column.stats.column.list=ts;
SET hoodie.metadata.record.index.enable=true;
SET hoodie.index.type=RECORD_INDEX;
SET hoodie.bulkinsert.sort.mode=NONE;
SET hoodie.bulkinsert.shuffle.parallelism={slices};
CREATE TABLE trades (id STRING, ts BIGINT, value STRING) USING hudi
TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts')
LOCATION '{path}';
SET hoodie.spark.sql.insert.into.operation=bulk_insert;
INSERT INTO trades SELECT {key} AS id, id AS ts, repeat({key}, 3) AS value FROM range(0, {rows}, 1, {slices});
SET hoodie.spark.sql.insert.into.operation=upsert;
INSERT INTO trades SELECT {key} AS id, CAST({ts_in_log} AS BIGINT) AS ts, 'log' AS value FROM range(0, {rows}, 1, 4)
WHERE id DIV {rows_in_slice} % {slices_with_log} = 0 AND id % {rows_in_slice} < {keys_in_log};
"""


def write_without_indexes(folder: Path, slices: int) -> None:
    """A table of version 9 with one partition, with key ranges and Bloom filters in the footers alone."""
    writer = TableWriter(folder=folder, options=_PROPERTIES).create()
    instant = at(1)
    for number in range(slices):
        keys = [f"key-{place * slices + number:010d}" for place in range(ROWS_IN_SLICE)]
        file_id = f"{number:08d}-5cf8-454a-a936-0b7c688e654a-0"
        path = folder / f"{file_id}_0-1-1_{instant}.parquet"
        meta = dict(zip(META_FIELDS, (instant, f"{instant}_0_0", None, "", path.name), strict=True))
        columns: dict[str, list[Any]] = {name: [value] * ROWS_IN_SLICE for name, value in meta.items()}
        columns |= {"_hoodie_record_key": keys, "id": keys, "value": [key * 3 for key in keys]}
        columns |= {"ts": np.arange(number * ROWS_IN_SLICE, (number + 1) * ROWS_IN_SLICE).tolist()}
        table = pa.table(columns, schema=writer.arrow_schema)
        pq.write_table(table.replace_schema_metadata(key_index(keys, _BLOOM_BITS, 20)), path, compression="gzip")
        if number % SLICES_WITH_LOG == 0:
            rows = [{"id": key, "ts": TS_IN_LOG, "value": "log"} for key in keys[:KEYS_IN_LOG]]
            writer.log_file(at(2), [writer.data_block(at(2), rows)], base_instant=instant, file_id=file_id)
    writer.commit(instant)
    writer.commit(at(2))


def with_indexes(slices: int) -> Recipe:
    """The SQL of a table that Hudi writes, with a record index and the column stats of ``ts``."""
    place, number = f"id % {ROWS_IN_SLICE}", f"id DIV {ROWS_IN_SLICE}"
    values = {
        "slices": str(slices),
        "rows": str(slices * ROWS_IN_SLICE),
        "key": f"printf('key-%010d', {place} * {slices} + {number})",
        "ts_in_log": str(TS_IN_LOG),
        "rows_in_slice": str(ROWS_IN_SLICE),
        "slices_with_log": str(SLICES_WITH_LOG),
        "keys_in_log": str(KEYS_IN_LOG),
    }
    sql = _SQL
    for name, value in values.items():
        sql = sql.replace(f"{{{name}}}", value)
    return Recipe(name=f"lookup-{slices}", sql=sql)


def make_with_indexes(folder: Path, slices: int, cache: Path) -> None:
    """The table that Hudi writes, as ``folder``; it is kept in ``cache``, and not written there again."""
    (written,) = make_tables([with_indexes(slices)], cache)
    shutil.copytree(written, folder, copy_function=_linked)


def _linked(source: str, target: str) -> None:
    """The same file under another name; a copy on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
