"""The writer that cases write their tables with."""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.golden.generate.answers import short_error
from tests.golden.generate.options import (
    DEFAULTS,
    DEFAULTS_OF_K,
    METADATA,
    PAYLOAD,
    TABLE_VERSION,
    Options,
)
from tests.golden.generate.questions import Questions
from tests.golden.generate.registry import Case
from tests.golden.generate.releases import number
from tests.golden.generate.timeline import WRITES, Instant, completed_file, instants, properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PARTITIONS = ("a", "b", "c")
_INT = 2**31


class Writer:
    """Writes one table, looks up what it has, and collects the queries to run on it.

    ``options`` are those of every write. ``reader_options`` are those that Hudi needs to read the table. ``notes`` are
    for readers of ``case.json``.
    """

    def __init__(self, spark: "SparkSession", case: Case, folder: Path) -> None:
        self.spark = spark
        self.case = case
        self.path = folder / "table"
        self.release = number(case.release)
        self.name = re.sub(r"\W", "_", case.name)
        self.defaults = DEFAULTS_OF_K if case.group == "k" else DEFAULTS
        self.options: dict[str, str | int | None] = {"hoodie.table.name": self.name}
        self.reader_options: dict[str, str] = {}
        self.notes: list[str] = []
        self.questions = Questions.of_group(case.group, case.name[0])
        self.settings: list[str] = []
        # Hudi 1.0 fails to read a bigint ordering value after a delete block.
        self.ordering_type = "int" if self.release[:2] == (1, 0) else "bigint"
        self.set("hoodie.embed.timeline.server", "false")

    def close(self) -> None:
        """Resets the settings of the session. Tables have unique names and stay in the catalog."""
        for name in self.settings:
            self.spark.conf.unset(name)

    # The kind of table.

    def use_table_version(self, version: int | None) -> None:
        """Sets the table version to write; None for the release's default."""
        if version is not None:
            self.options[TABLE_VERSION] = version

    def without_metadata_table(self) -> None:
        """Turns the metadata table off."""
        self.options[METADATA] = "false"

    # Rows.

    def frame(self, rows: Iterable[Any], schema: Any) -> "DataFrame":
        """The rows in one Spark partition, so that files are the same in each run."""
        return self.spark.createDataFrame(list(rows), schema).coalesce(1)

    def rows(
        self,
        numbers: Iterable[int],
        ts: int,
        tag: str,
        *,
        parts: Sequence[str | None] = PARTITIONS,
        part_of: Callable[[int], str | None] | None = None,
    ) -> "DataFrame":
        """Rows of the default table (id, part, ts, name, price, qty); values follow from key, ``ts`` and ``tag``."""
        actual = []
        for key in numbers:
            chance = random.Random(f"0/{key}/{tag}/{ts}")
            part = part_of(key) if part_of else parts[key // 2 % len(parts)]
            name = None if chance.random() < 0.1 else f"{tag}-{key}"
            price = None if chance.random() < 0.1 else chance.uniform(-1000, 1000)
            qty = None if chance.random() < 0.1 else chance.randrange(-_INT, _INT)
            actual.append((f"k{key:05d}", part, ts, name, price, qty))
        return self.frame(
            actual, f"id string, part string, ts {self.ordering_type}, name string, price double, qty int"
        )

    # Writes.

    def write_options(self, **more: str | int | None) -> dict[str, str]:
        """Options of a write: the defaults, those of the case, and ``more``."""
        merged = {**self.defaults, **self.options, **more}
        return {name: str(value) for name, value in merged.items() if value is not None}

    def write(self, frame: "DataFrame", operation: str = "upsert", options: Options | None = None) -> None:
        """One commit through Spark's data source."""
        chosen = self.write_options(**{"hoodie.datasource.write.operation": operation, **(options or {})})
        frame.write.format("hudi").options(**chosen).mode("append").save(str(self.path))

    def upsert(
        self, numbers: Iterable[int], ts: int, tag: str, operation: str = "upsert", options: Options | None = None
    ) -> None:
        """One commit of rows of the default table."""
        self.write(self.rows(numbers, ts, tag), operation, options)

    def set(self, name: str, value: str) -> None:
        """Sets a setting of the session until the case is done."""
        self.settings.append(name)
        self.spark.conf.set(name, value)

    def sql(self, statement: str) -> "DataFrame":
        """Runs a statement."""
        return self.spark.sql(statement)

    def try_sql(self, statement: str) -> bool:
        """Runs a statement that some releases refuse; adds a note if this one does."""
        try:
            self.sql(statement)
        except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
            self.notes.append(f"REFUSED {statement[:90]}: {short_error(error)}")
            return False
        return True

    def register(self) -> None:
        """Creates the table in the catalog, for SQL."""
        self.sql(f"create table if not exists {self.name} using hudi location '{self.path}'")

    def call(self, statement: str) -> "list[Row]":
        """Calls a procedure; options of the case that procedures read from the session are set there."""
        if TABLE_VERSION in self.options:
            self.set(TABLE_VERSION, str(self.options[TABLE_VERSION]))
            self.set("hoodie.write.auto.upgrade", "false")
        if self.options.get(METADATA) == "false":
            self.set(METADATA, "false")
        return self.sql(statement).collect()

    def roll_back(self, instant: str) -> None:
        """Rolls back a completed instant with the write client, as the SQL procedure would upgrade the table."""
        client = self._client("")
        assert client.rollback(instant), f"{instant} was not rolled back"
        client.close()

    def write_records(self, schema: str, rows: Iterable[Sequence[Any]]) -> None:
        """One commit of rows and their operations in a changelog through the write client, as Flink's writers do.

        ``schema`` is Avro's as JSON; of its columns, the first three are the record key, the partition and the ordering
        value. Each row ends with its operation.
        """
        java: Any = self.spark.sparkContext._jvm
        hudi, avro = java.org.apache.hudi, java.org.apache.avro
        parsed = avro.Schema.Parser().parse(schema)
        records = java.java.util.ArrayList()
        for key, partition, ordering, *others, operation in rows:
            record = avro.generic.GenericData.Record(parsed)
            for position, value in enumerate((key, partition, ordering, *others)):
                record.put(position, value)
            model = hudi.common.model
            payload = model.DefaultHoodieRecordPayload(record, ordering)
            kind = model.HoodieOperation.fromName(operation)
            records.add(model.HoodieAvroRecord(model.HoodieKey(key, partition), payload, kind))
        client = self._client(schema)
        meta_client = java.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        meta_client = meta_client.setConf(self._storage_configuration()).setBasePath(str(self.path)).build()
        instant = client.startCommit("deltacommit", meta_client)
        context: Any = self.spark.sparkContext._jsc
        written = client.upsert(context.parallelize(records, 1), instant)
        assert client.commit(instant, written), f"{instant} was not committed"
        client.close()

    def _storage_configuration(self) -> Any:
        java: Any = self.spark.sparkContext._jvm
        context: Any = self.spark.sparkContext._jsc
        return java.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(context.hadoopConfiguration())

    def _client(self, schema: str) -> Any:
        """The write client of the table."""
        java: Any = self.spark.sparkContext._jvm
        options = java.java.util.HashMap()
        # The client of 0.15 has no default for the payload class.
        payload = properties(self.path).get("hoodie.compaction.payload.class")
        for name, value in self.write_options(**{PAYLOAD: payload, "hoodie.write.auto.upgrade": "false"}).items():
            options.put(name, value)
        context: Any = self.spark.sparkContext._jsc
        return java.org.apache.hudi.DataSourceUtils.createHoodieClient(
            context, schema, str(self.path), self.name, options
        )

    # The state of the table.

    def instants(self) -> list[Instant]:
        """The active timeline."""
        return instants(self.path)

    def last(self) -> str:
        """The requested time of the newest completed write."""
        return [instant for instant in self.instants() if instant.state == "completed" and instant.action in WRITES][
            -1
        ].requested

    def completed_file(self, requested: str) -> Path:
        """The file of a completed action."""
        return completed_file(self.path, requested)

    def logs(self) -> list[Path]:
        """The log files of the table, without those of its metadata table."""
        return sorted(
            path
            for path in self.path.rglob(".*.log.*")
            if path.suffix != ".crc" and ".hoodie" not in path.relative_to(self.path).parts
        )

    def columns(self) -> list[str]:
        """The columns without meta fields, in SQL's order."""
        fields = self.sql(f"select * from {self.name} limit 0").columns
        return [name for name in fields if not name.startswith("_hoodie")]


def with_columns(frame: "DataFrame", columns: Mapping[str, str]) -> "DataFrame":
    """A frame with columns added or replaced, given as SQL."""
    kept = [f"{columns[name]} as `{name}`" if name in columns else f"`{name}`" for name in frame.columns]
    added = [f"{text} as `{name}`" for name, text in columns.items() if name not in frame.columns]
    return frame.selectExpr(*kept, *added)


def key_number() -> str:
    """SQL for the number in a key of the default table."""
    return "cast(substr(id, 2) as int)"
