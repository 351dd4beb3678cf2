"""Writes external.tar.xz: tables of external files, as Apache XTable commits them, with the answers of Hudi on Spark.

    .venv-spark35/bin/python -m tests.golden.external work-folder [table ...]
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/external.tar.xz

Needs the PySpark 3.5 of ``make spark``. PyArrow writes the Parquet files; Hudi's write client commits them through
replace commits, in the way of ``HudiConversionTarget`` of XTable. Hudi finds external files in the metadata table
alone.

<table>/table         the table
<table>/answers.json  the queries: kind, options of Hudi's data source, and the name of the answer or Hudi's error
<table>/answers       the rows that Hudi returned
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.golden.generate.answers import save_rows, short_error
from tests.golden.generate.questions import Questions
from tests.golden.generate.releases import NEWEST, RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.generate.timeline import instants, table_version

_Table = TypeVar("_Table")
_COLUMNS: dict[str, Any] = {"id": pa.int64(), "name": pa.string(), "price": pa.float64(), "part": pa.string()}
SCHEMA = pa.schema(_COLUMNS)
AVRO = {
    "type": "record",
    "name": "rows",
    "fields": [
        {"name": name, "type": ["null", kind], "default": None}
        for name, kind in (("id", "long"), ("name", "string"), ("price", "double"), ("part", "string"))
    ],
}
_MODEL = "org.apache.hudi.common.model."


@dataclass(frozen=True, kw_only=True)
class Sync:
    """A commit: the files that it adds, with the numbers of their rows, and those that it removes.

    A file is its partition, the folders below it, and its name.
    """

    adds: Mapping[tuple[str, str, str], range] = field(default_factory=dict)
    removes: Sequence[tuple[str, str, str]] = ()
    cleans: Sequence[tuple[str, str, str, int]] = ()
    """Files with the numbers of the commits that added them."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its version, and what is committed to it."""

    syncs: Sequence[Sync]
    version: int = 6
    is_partitioned: bool = False
    is_hive_style: bool = False
    has_metadata_table: bool = True
    columns_in_path: bool = False
    statistics: bool = False
    meta_columns: bool = False
    keys: str = ""
    is_archived: bool = False
    inserts: range = range(0)
    """What Hudi itself inserts then."""


def _flat(*prefixes: str) -> list[Sync]:
    first, second = (*prefixes, "", "")[:2]
    return [
        Sync(
            adds={
                ("", first, "part-00000-a1.snappy.parquet"): range(10),
                ("", first, "x_1-0-1_20200101.parquet"): range(10, 20),
            }
        ),
        Sync(
            adds={("", second, "part-00001.parquet"): range(20, 25), ("", second, "part-00002.parquet"): range(25, 27)},
            removes=[("", first, "part-00000-a1.snappy.parquet")],
        ),
        Sync(removes=[("", second, "part-00002.parquet")]),
    ]


def _parts(*paths: str) -> list[Sync]:
    first, second = paths
    return [
        Sync(adds={(first, "", "f1.parquet"): range(10), (second, "", "f1.parquet"): range(10, 20)}),
        Sync(adds={(second, "bucket-1/x=y z", "f2.parquet"): range(20, 25)}, removes=[(first, "", "f1.parquet")]),
        Sync(
            adds={(first, "bucket-1", "f2.parquet"): range(25, 30), (first, "bucket-1", "f3_1.parquet"): range(30, 33)},
            removes=[(second, "", "f1.parquet")],
        ),
    ]


TABLES = {
    "flat_v6": Table(syncs=_flat(), statistics=True),
    "flat_v9": Table(syncs=_flat(), version=9, statistics=True),
    "prefixes_v9": Table(syncs=_flat("bucket-0", "bucket-0/deeper"), version=9),
    "parts_v6": Table(syncs=_parts("part=a", "part=b"), is_partitioned=True, is_hive_style=True, columns_in_path=True),
    "parts_v9": Table(syncs=_parts("a", "b"), version=9, is_partitioned=True),
    "without_metadata_table_v6": Table(syncs=_parts("a", "b"), is_partitioned=True, has_metadata_table=False),
    "cleaned_v6": Table(
        syncs=[*_flat(), Sync(cleans=[("", "", "part-00000-a1.snappy.parquet", 0), ("", "", "part-00002.parquet", 1)])]
    ),
    "archived_v6": Table(
        syncs=[
            *_parts("a", "b"),
            Sync(cleans=[("a", "", "f1.parquet", 0), ("b", "", "f1.parquet", 0)]),
            *(Sync(adds={("b", "", f"g{number}.parquet"): range(number, number + 2)}) for number in range(50, 60, 2)),
        ],
        is_partitioned=True,
        is_archived=True,
    ),
    "without_ending_v9": Table(
        syncs=[Sync(adds={("", "", "part-0.parquet"): range(5), ("", "", "000000_0"): range(5, 8)})], version=9
    ),
    "inserted_v9": Table(syncs=_parts("a", "b"), version=9, is_partitioned=True, keys="id", inserts=range(40, 50)),
    "meta_columns_v9": Table(
        syncs=_parts("a", "b"), version=9, is_partitioned=True, keys="id", meta_columns=True, inserts=range(40, 50)
    ),
}


def _rows(numbers: range, part: str) -> pa.Table:
    columns = [
        pa.array(numbers, pa.int64()),
        [None if number % 7 == 3 else f"n{number}" for number in numbers],
        [number / 4 for number in numbers],
        [part] * len(numbers),
    ]
    return pa.table(columns, schema=SCHEMA)


class Writer:
    """Commits files to a table by Hudi's write client."""

    def __init__(self, spark: SparkSession, path: Path, table: Table) -> None:
        """Creates the table."""
        self._spark, self._path, self._table = spark, path, table
        java: Any = spark._jvm
        context: Any = spark._jsc
        self._java, self._context, hadoop = java, context, context.hadoopConfiguration()
        common = java.org.apache.hudi.common
        self._conf = java.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(hadoop)
        builder = common.table.HoodieTableMetaClient.newTableBuilder()
        generator = "Simple" if table.is_partitioned else "Nonpartitioned"
        builder = builder.setTableType("COPY_ON_WRITE").setTableName(path.parent.name).setDatabaseName("default_hudi")
        builder = builder.setTableVersion(table.version).setPayloadClassName(_MODEL + "HoodieAvroPayload")
        builder = builder.setPopulateMetaFields(table.meta_columns).setRecordKeyFields(table.keys)
        builder = builder.setKeyGeneratorClassProp(f"org.apache.hudi.keygen.{generator}KeyGenerator")
        builder = builder.setPartitionFields("part" if table.is_partitioned else "")
        builder = builder.setHiveStylePartitioningEnable(table.is_hive_style)
        builder.setCommitTimezone(common.model.HoodieTimelineTimeZone.UTC).initTable(self._conf, str(path))
        self._times: list[str] = []

    def _meta_client(self) -> Any:
        builder = self._java.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        return builder.setConf(self._conf).setBasePath(str(self._path)).build()

    def sync(self, sync: Sync) -> None:
        """Writes the files of a commit, and commits them."""
        java, time = self._java, f"2026010{len(self._times) + 1}000000000"
        self._times.append(time)
        client, context = (
            self._meta_client(),
            java.org.apache.hudi.client.common.HoodieSparkEngineContext(self._context),
        )
        write = java.org.apache.hudi.client.SparkRDDWriteClient(context, self._config())
        if sync.cleans:
            self._clean(write, context, client, time, sync)
            return
        statuses = java.java.util.ArrayList()
        for (partition, below, name), numbers in sync.adds.items():
            statuses.add(self._added(partition, below, name, numbers, time))
        replaced = java.java.util.HashMap()
        for partition, below, name in sync.removes:
            ids = replaced.get(partition) or java.java.util.ArrayList()
            ids.add(f"{below}/{name}".removeprefix("/"))
            replaced.put(partition, ids)
        action, timeline = "replacecommit", client.getActiveTimeline()
        timeline.createRequestedCommitWithReplaceMetadata(time, action)
        generator = client.getInstantGenerator()
        requested = java.org.apache.hudi.common.table.timeline.HoodieInstant.State.REQUESTED
        option = java.org.apache.hudi.common.util.Option
        timeline.transitionReplaceRequestedToInflight(
            generator.createNewInstant(requested, action, time), option.empty()
        )
        write.setOperationType(getattr(java, f"{_MODEL}WriteOperationType").UNKNOWN)
        rdd = self._context.parallelize(statuses, 1)
        write.commit(time, rdd, option.empty(), action, replaced, option.empty())
        if self._table.is_archived:
            of_archive = java.org.apache.hudi.client.timeline.versioning.v1
            table = java.org.apache.hudi.table.HoodieSparkTable.create(write.getConfig(), context, self._meta_client())
            of_archive.TimelineArchiverV1(write.getConfig(), table).archiveIfRequired(context, True)
        write.close()

    def _config(self) -> Any:
        table, properties = self._table, self._java.java.util.Properties()
        for name, value in {
            "hoodie.table.name": self._path.parent.name,
            "hoodie.write.table.version": str(table.version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.metadata.enable": str(table.has_metadata_table).lower(),
            "hoodie.metadata.auto.initialize": "false",
            "hoodie.metadata.index.column.stats.enable": str(table.statistics).lower(),
            "hoodie.metadata.index.partition.stats.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.populate.meta.fields": str(table.meta_columns).lower(),
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.metadata.compact.max.delta.commits": "2" if table.is_archived else "10",
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
            "hoodie.clean.commits.retained": "1",
            "hoodie.index.type": "INMEMORY",
        }.items():
            properties.setProperty(name, value)
        builder = self._java.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
        return builder.withProperties(properties).withPath(str(self._path)).withSchema(json.dumps(AVRO)).build()

    def _added(self, partition: str, below: str, name: str, numbers: range, time: str) -> Any:
        folder = self._path / partition / below
        folder.mkdir(parents=True, exist_ok=True)
        rows = _rows(numbers, partition.removeprefix("part="))
        if self._table.columns_in_path:
            rows = rows.drop_columns("part")
        pq.write_table(rows, folder / name, compression="snappy", row_group_size=6)
        java, size = self._java, (folder / name).stat().st_size
        files = java.org.apache.hudi.common.util.ExternalFilePathUtil
        marked = files.appendCommitTimeAndExternalFileMarker(name, time, below)
        stat = java.org.apache.hudi.common.model.HoodieDeltaWriteStat()
        stat.setFileId(f"{below}/{name}".removeprefix("/"))
        stat.setPartitionPath(partition)
        stat.setPath("/".join(part for part in (partition, below, marked) if part))
        stat.setNumWrites(len(numbers))
        stat.setNumInserts(len(numbers))
        stat.setTotalWriteBytes(size)
        stat.setFileSizeInBytes(size)
        if self._table.statistics:
            stat.putRecordsStats(self._ranges(name, rows))
        status = java.org.apache.hudi.client.WriteStatus()
        status.setFileId(stat.getFileId())
        status.setPartitionPath(partition)
        status.setStat(stat)
        return status

    def _ranges(self, name: str, rows: pa.Table) -> Any:
        java, ranges = self._java, self._java.java.util.HashMap()
        stats = java.org.apache.hudi.stats
        for column in rows.column_names:
            if column == "id":
                low, high = (
                    java.java.lang.Long(number) for number in (rows[column][0].as_py(), rows[column][-1].as_py())
                )
                of_column = stats.HoodieColumnRangeMetadata.create(
                    name, column, low, high, 0, len(rows), 100, -1, stats.ValueMetadata.V1EmptyMetadata.get()
                )
                ranges.put(column, of_column)
        return ranges

    def _clean(self, write: Any, context: Any, client: Any, time: str, sync: Sync) -> None:
        java = self._java
        avro, option = java.org.apache.hudi.avro.model, java.org.apache.hudi.common.util.Option
        files = java.org.apache.hudi.common.util.ExternalFilePathUtil
        table = java.org.apache.hudi.table.HoodieSparkTable.create(write.getConfig(), context, client)
        policy = getattr(java, f"{_MODEL}HoodieCleaningPolicy").KEEP_LATEST_COMMITS
        empty, by_partition = java.java.util.ArrayList(), java.java.util.HashMap()
        stats, retained = java.java.util.ArrayList(), self._times[2]
        for partition in dict.fromkeys(partition for partition, *_ in sync.cleans):
            names, infos = java.java.util.ArrayList(), java.java.util.ArrayList()
            for _, below, name, added in (clean for clean in sync.cleans if clean[0] == partition):
                marked = files.appendCommitTimeAndExternalFileMarker(name, self._times[added], below)
                names.add(marked)
                infos.add(avro.HoodieCleanFileInfo(marked, False))
            by_partition.put(partition, infos)
            stats.add(
                java.org.apache.hudi.common.HoodieCleanStat(policy, partition, names, names, empty, retained, retained)
            )
        plan = avro.HoodieCleanerPlan(
            avro.HoodieActionInstant(retained, "replacecommit", "COMPLETED"),
            time,
            policy.name(),
            java.java.util.HashMap(),
            2,
            by_partition,
            empty,
            java.java.util.HashMap(),
        )
        state = java.org.apache.hudi.common.table.timeline.HoodieInstant.State.REQUESTED
        requested = client.getInstantGenerator().createNewInstant(state, "clean", time)
        timeline = client.getActiveTimeline()
        timeline.saveToCleanRequested(requested, option.of(plan))
        inflight = timeline.transitionCleanRequestedToInflight(requested)
        utils = java.org.apache.hudi.common.util.CleanerUtils
        cleaned = utils.convertCleanMetadata(time, option.empty(), stats, java.java.util.HashMap())
        metadata = table.getMetadataWriter(time).get()
        metadata.performTableServices(option.empty())
        metadata.update(cleaned, time)
        metadata.close()
        timeline.transitionCleanInflightToComplete(False, inflight, option.of(cleaned))
        write.close()
        for partition, below, name, _ in sync.cleans:
            (self._path / partition / below / name).unlink()


def _insert(spark: SparkSession, path: Path, table: Table) -> None:
    """Rows that Hudi's data source inserts."""
    parts = [_rows(table.inserts, "c").to_pylist(), _rows(table.inserts, "a").to_pylist()]
    frame = spark.createDataFrame(
        [tuple(row.values()) for rows in parts for row in rows], "id long, name string, price double, part string"
    )
    options = {
        "hoodie.table.name": path.parent.name,
        "hoodie.datasource.write.recordkey.field": table.keys,
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.populate.meta.fields": str(table.meta_columns).lower(),
        "hoodie.embed.timeline.server": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.bulkinsert.shuffle.parallelism": "1",
        "hoodie.metadata.index.column.stats.enable": "false",
    }
    frame.coalesce(1).write.format("hudi").options(**options).mode("append").save(str(path))


def ask(spark: SparkSession, folder: Path, *, has_metadata_table: bool) -> None:
    """Asks Hudi for the rows of a table, and keeps them."""
    path = folder / "table"
    (folder / "answers").mkdir()
    asked = Questions(time_travels=4, ranges=1).about(instants(path), table_version(path), has_changes=False)
    answers: list[dict[str, Any]] = []
    for question in asked:
        spark.catalog.clearCache()
        answer: dict[str, Any] = {"kind": question.kind, "options": dict(question.options)}
        options = {**question.options, "hoodie.metadata.enable": str(has_metadata_table).lower()}
        try:
            rows = spark.read.format("hudi").options(**options).load(str(path))
            save_rows(spark, rows, folder / "answers" / f"{question.stem}.parquet")
            answer["rows"] = f"{question.stem}.parquet"
        except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
            answer["error"] = short_error(error)
        answers.append(answer)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    for crc in folder.rglob("*.crc"):
        crc.unlink()


def write_table(spark: SparkSession, folder: Path, table: Table) -> None:
    """Writes a table, and asks Hudi for its rows."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    writer = Writer(spark, folder / "table", table)
    for sync in table.syncs:
        writer.sync(sync)
    if table.inserts:
        _insert(spark, folder / "table", table)
    ask(spark, folder, has_metadata_table=table.has_metadata_table)


def write_all(
    names: Sequence[str], write: Callable[[SparkSession, Path, _Table], None], tables: Mapping[str, _Table]
) -> None:
    """Writes tables into a folder, the first of the names: all, or those that are named after it."""
    folder, *chosen = names
    with spark_session(NEWEST, RELEASES[NEWEST].bundle.fetched()) as spark:
        for name in chosen or tables:
            try:
                write(spark, Path(folder).resolve() / name, tables[name])
            except Exception as error:  # noqa: BLE001 - the other tables go on
                print(f"{name}: FAILED: {short_error(error)}", flush=True)
            else:
                print(f"{name}: written", flush=True)


if __name__ == "__main__":
    write_all(sys.argv[1:], write_table, TABLES)
