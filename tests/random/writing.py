"""Writes a random table with Hudi on Spark, step by step: what Hudi refuses is noted, and the next step goes on."""

import contextlib
import pickle
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden.generate.answers import short_error
from tests.golden.generate.options import ORDERING, RECORD_KEY, TABLE_TYPE, TABLE_VERSION
from tests.golden.generate.releases import number
from tests.golden.generate.timeline import WRITES, Instant, instants, table_version
from tests.random.draw import DEFAULT_PAYLOAD, Draw, Step, option_text
from tests.random.drawn_services import IN_MEMORY
from tests.random.kinds import arrow_type
from tests.random.rows import Row, RowSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DONE = "done"

_PROGRESS = "progress.pickle"
_ONE_TASK = (
    *("upsert.shuffle", "insert.shuffle", "delete.shuffle", "bloom.index", "simple.index", "global.simple.index"),
    *("rollback", "finalize.write", "markers.delete", "cleaner", "archive.delete", "file.listing", "clustering.max"),
)
_INDEX_OF_ALL = "hoodie.metadata.global.record.level.index"
DEFAULTS: Mapping[str, object] = {
    **{f"hoodie.{name}.parallelism": 1 for name in _ONE_TASK},
    "hoodie.embed.timeline.server": False,
    "hoodie.index.bloom.num_entries": 300,
    "hoodie.bloom.index.filter.dynamic.max.entries": 1000,
    "hoodie.metadata.record.index.min.filegroup.count": 2,
    "hoodie.metadata.record.index.max.filegroup.count": 2,
    f"{_INDEX_OF_ALL}.min.filegroup.count": 2,
    f"{_INDEX_OF_ALL}.max.filegroup.count": 2,
    "hoodie.metadata.record.level.index.min.filegroup.count": 1,
    "hoodie.metadata.record.level.index.max.filegroup.count": 1,
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
    "hoodie.client.heartbeat.interval_in_ms": 20000,
    "hoodie.metadata.bloom.filter.enable": False,
    "hoodie.write.auto.upgrade": False,
}
"""Options of every write: small indexes, one task for each stage, and no upgrades but those of steps."""
_NOT_OF_SQL = ("hoodie.datasource.write.", "hoodie.table.name", "hoodie.table.ordering")
_OF_SQL_TOO = (
    "hoodie.datasource.write.reconcile.schema",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
)


class NotApplicableError(Exception):
    """Raised by a step that does not apply to the table as it is."""


@dataclass(slots=True)
class Progress:
    """What has been done to a table. It goes on to the next session if another release continues the table."""

    rows: RowSource
    version: int
    savepoints: list[str] = field(default_factory=list)
    indexed: list[str] = field(default_factory=list)
    """Columns with a secondary index."""
    log: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class TableWriter:
    """One table in one session of Spark; steps get it, the random numbers of the step, and the step."""

    spark: "SparkSession"
    release: str
    table: Draw
    folder: Path
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        saved = self.folder / _PROGRESS
        if self.release != self.table.first_release and saved.exists():
            self.progress = pickle.loads(saved.read_bytes())
            saved.unlink()
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            self.progress = Progress(RowSource(self.table), self.table.table_version)
        if self.table.index == IN_MEMORY:
            self._forget_keys_in_memory()

    @property
    def path(self) -> Path:
        """The table's folder."""
        return self.folder / "table"

    @property
    def name(self) -> str:
        """The table's name in the catalog."""
        return self.table.name

    @property
    def rows(self) -> RowSource:
        """The rows to write."""
        return self.progress.rows

    def save(self) -> None:
        """Keeps the progress for the session of the next release."""
        (self.folder / _PROGRESS).write_bytes(pickle.dumps(self.progress))

    # Writes.

    def options(self, more: Mapping[str, object] | None = None) -> dict[str, str]:
        """The options of a write."""
        table = self.table
        ordering = ",".join(name for name, _ in table.ordering)
        chosen: dict[str, object] = {
            **DEFAULTS,
            **table.options,
            "hoodie.table.name": self.name,
            TABLE_TYPE: table.table_type,
            RECORD_KEY: ",".join(table.key_fields),
        }
        if ordering:
            chosen[ORDERING] = ordering
            if number(self.release) >= (1, 1):
                chosen["hoodie.table.ordering.fields"] = ordering
            if table.payload in (DEFAULT_PAYLOAD, "EventTimeAvroPayload"):
                first = table.ordering[0][0]
                chosen |= {"hoodie.payload.ordering.field": first, "hoodie.payload.event.time.field": first}
        if number(self.release) >= (1, 0):
            chosen[TABLE_VERSION] = self.progress.version
        return {name: option_text(value) for name, value in {**chosen, **(more or {})}.items()}

    def write(self, rows: Sequence[Row], operation: str, more: Mapping[str, object] | None = None) -> None:
        """One commit of rows through Spark's data source."""
        self.write_frame(self.frame(rows), operation, more)

    def write_frame(self, frame: "DataFrame", operation: str, more: Mapping[str, object] | None = None) -> None:
        """One commit of a frame through Spark's data source."""
        options = self.options({"hoodie.datasource.write.operation": operation, **(more or {})})
        frame.write.format("hudi").options(**options).mode("append").save(str(self.path))

    def frame(self, rows: Sequence[Row]) -> "DataFrame":
        """The rows as a frame; by way of a file, since rows with lists would need a Python process for Spark."""
        columns = self.rows.columns
        arrays = [pa.array([row[name] for row in rows], arrow_type(kind)) for name, kind in columns]
        folder = self.folder / "input"
        folder.mkdir(exist_ok=True)
        path = folder / f"{len(list(folder.iterdir())):03d}.parquet"
        pq.write_table(pa.table(dict(zip((name for name, _ in columns), arrays, strict=True))), path)
        return self.spark.read.schema(self.rows.schema).parquet(str(path)).coalesce(1)

    def client(self) -> Any:
        """The write client of the table; the caller closes it."""
        java: Any = self.spark.sparkContext._jvm
        options = java.java.util.HashMap()
        for name, value in self.options().items():
            options.put(name, value)
        context: Any = self.spark.sparkContext._jsc
        return java.org.apache.hudi.DataSourceUtils.createHoodieClient(context, "", str(self.path), self.name, options)

    # SQL.

    def sql(self, statement: str, more: Mapping[str, object] | None = None) -> None:
        """Runs a statement on the table, with the options of its writer as settings of the session."""
        settings = {name: text for name, text in self.options().items() if not name.startswith(_NOT_OF_SQL)}
        settings |= {name: self.table.options[name] for name in _OF_SQL_TOO if name in self.table.options}
        settings |= {name: option_text(value) for name, value in (more or {}).items()}
        for name, value in settings.items():
            self.spark.conf.set(name, value)
        try:
            self._register()
            self.spark.sql(statement).collect()
        finally:
            for name in settings:
                self.spark.conf.unset(name)

    def _register(self) -> None:
        # A table that is created again has the schema that it has by now.
        session: Any = self.spark
        with contextlib.suppress(Exception):
            if self.spark.catalog.tableExists(self.name):
                catalog = session._jsparkSession.sessionState().catalog().externalCatalog()
                catalog.dropTable("default", self.name, True, False)
        self.spark.catalog.clearCache()
        self.spark.sql(f"create table {self.name} using hudi location '{self.path}'")

    def _forget_keys_in_memory(self) -> None:
        """Clears the in-memory index, which is one for all tables of a JVM."""
        java: Any = self.spark.sparkContext._jvm
        loader = java.java.lang.Thread.currentThread().getContextClassLoader()
        name = "org.apache.hudi.index.inmemory.HoodieInMemoryHashIndex"
        keys = java.java.lang.Class.forName(name, True, loader).getDeclaredField("recordLocationMap")
        keys.setAccessible(True)
        keys.set(None, None)

    # The state of the table.

    def completed(self, actions: Sequence[str] = (*WRITES, "clustering")) -> list[Instant]:
        """The completed instants of some actions."""
        return [
            instant for instant in instants(self.path) if instant.state == "completed" and instant.action in actions
        ]

    def partitions(self) -> list[str]:
        """The paths of partitions that have been written."""
        markers = self.path.rglob(".hoodie_partition_metadata*")
        paths = {marker.parent.relative_to(self.path) for marker in markers}
        return sorted(str(path) for path in paths if path.parts and path.parts[0] != ".hoodie")


StepFunction = Callable[[TableWriter, Random, Step], None]
FUNCTIONS: dict[str, StepFunction] = {}
"""What runs a step, by its name; modules of steps fill it."""


def step(function: StepFunction) -> StepFunction:
    """Registers a function as the step of its name."""
    FUNCTIONS[function.__name__] = function
    return function


def run_steps(writer: TableWriter) -> bool:
    """Runs the steps of the session's release; returns whether there is a table."""
    for item in writer.table.steps:
        if item.release == writer.release:
            result = _run(writer, item)
            if len(writer.progress.log) == 1 and result != DONE:
                return False
    writer.progress.version = table_version(writer.path) or writer.progress.version
    return True


def _run(writer: TableWriter, one: Step) -> str:
    """Runs a step, and adds what became of it to the log."""
    start, before = time.monotonic(), {instant.requested for instant in _instants(writer)}
    chance = Random(f"{writer.table.release}/{writer.table.seed}/{one.number}")
    entry: dict[str, Any] = {"number": one.number, "name": one.name, "release": one.release}
    columns = list(writer.rows.columns)
    try:
        FUNCTIONS[one.name](writer, chance, one)
        entry["result"] = DONE
    except NotApplicableError as reason:
        entry["result"] = f"left out: {reason}"
    except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
        entry["result"] = f"refused: {short_error(error)}{_conflict(error)}"
        writer.rows.columns = columns
    entry["instants"] = [
        f"{instant.requested}.{instant.action}.{instant.state}"
        for instant in _instants(writer)
        if instant.requested not in before
    ]
    entry["seconds"] = round(time.monotonic() - start, 1)
    writer.progress.log.append(entry)
    result: str = entry["result"]
    return result


def _conflict(error: Exception) -> str:
    """The options that contradict those of the table, which come after the first line of a message."""
    _, said, rest = str(error).partition("Config conflict")
    lines = rest.splitlines()[1:] if said else []
    return "".join(f" {line.strip()}" for line in lines if "\t" in line and not line.strip().startswith("at "))


def _instants(writer: TableWriter) -> list[Instant]:
    return instants(writer.path) if writer.path.is_dir() else []
