"""Small tables that ``read`` reads natively in Spark, what is seen of it, and where a snapshot has its keys."""

import contextlib
import io
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from hudi_bridge import HudiTable, open_reader
from hudi_bridge.readers.split_columns import record_keys
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

Home = tuple[str | None, str | None, str | None]
PARTITIONED = (*KEY_AND_VALUE, ("part", "string"))


def row(key: str, ts: int, value: str | None, part: str | None = "p") -> dict[str, Any]:
    return {"id": key, "ts": ts, "value": value, "part": part}


def written(folder: Path) -> TableWriter:
    """A table of three rows of which the log replaces one, deletes another and adds two."""
    writer = TableWriter(folder=folder / "table", fields=PARTITIONED, partition_fields=("part",)).create()
    write_group(writer, "p", "f1-0")
    for version in (1, 2):
        writer.commit(at(version))
    return writer


def write_group(writer: TableWriter, partition: str, file_id: str) -> None:
    """A base file and a log file in a partition."""
    part = value_in(partition)
    base = [row("a", 1, "x", part), row("b", 1, "y", part), row("c", 1, None, part)]
    writer.base_file(at(1), base, partition=partition, file_id=file_id)
    log = [row("b", 2, "new", part), row("d", 2, "x", part), row("e", 2, None, part)]
    block = writer.data_block(at(2), log, partition=partition, file_id=file_id)
    deletes = writer.delete_block(at(2), [("a", 2)], partition=partition)
    writer.log_file(at(2), [block, deletes], partition=partition, file_id=file_id)


def value_in(partition: str) -> str:
    return unquote(partition).removeprefix("part=")


MERGED = [("b", "new"), ("c", None), ("d", "x"), ("e", None)]


def values(frame: DataFrame) -> list[Any]:
    return sorted((item["id"], item["value"]) for item in frame.collect())


def plan_of(frame: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        frame.explain(extended=False)
    return shown.getvalue()


def kept_in_spark(spark: SparkSession) -> set[int]:
    """What Spark keeps after the JVM has collected garbage, by the numbers of its RDDs."""
    spark.sparkContext._jvm.System.gc()  # type: ignore[union-attr]
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


def homes_in_snapshot(path: str) -> dict[str, set[Home]]:
    """The partition, file id and instant of each record key, by the rows of the snapshot."""
    homes: dict[str, set[Home]] = defaultdict(set)
    for split in HudiTable.open(path).splits():
        for batch in open_reader(split, columns=split.context.key_columns).batches():
            for key in record_keys(batch, split.context).to_pylist():
                homes[str(key)].add((split.partition_path, split.file_id, split.base_instant_time))
    return homes
