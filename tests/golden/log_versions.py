"""Writes log_versions.tar.xz: all sequences of up to three log versions of a record, and what Hudi makes of each.

    .venv/bin/python -m tests.golden.log_versions work-folder write [table ...]
    .venv-spark35/bin/python -m tests.golden.log_versions work-folder 1.2.0 [table ...]
    tar -C work-folder --sort=name --owner=root:0 --group=root:0 --mtime=2026-11-21 -cf - . \
        | xz -9e > tests/golden/log_versions.tar.xz

Needs the PySpark 3.5 of ``make spark``; one process for each of the releases in ``TABLES``. The tables are written by
hand (``tests/support/table_writer.py``), because Hudi's writers on Spark turn rows that are marked as deletes into
records of delete blocks.

Each key is a sequence, such as ``1|M5,D-1,R5``: a base row with ordering value 1 or, by ``-``, none; then the log
versions, one in each log file. R is a row, M one that ``_hoodie_is_deleted`` marks, O one that its operation marks, C
one that the table's delete marker marks, and D a record of a delete block. The number is the ordering value, n a
missing one; of D, n is Java's Integer 0.

<table>/table                      the table
<table>/answers/<release>.parquet  the snapshot: key, ordering value, and the version that the row is of
"""

import itertools
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.golden.generate.releases import RELEASES
from tests.golden.generate.session import spark_session

Version = tuple[str, int | None]
BASES = (None, 1)
VALUES = (-1, 5)
PAYLOAD = "hoodie.compaction.payload.class"
PACKAGE = "org.apache.hudi.common.model."
MODE = "hoodie.record.merge.mode"
STRATEGY = "hoodie.record.merge.strategy.id"
EVENT_TIME_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_ID = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
PAYLOAD_ID = "00000000-0000-0000-0000-000000000000"
_EVENT_TIME = {MODE: "EVENT_TIME_ORDERING", STRATEGY: EVENT_TIME_ID}
_COMMIT_TIME = {MODE: "COMMIT_TIME_ORDERING", STRATEGY: COMMIT_TIME_ID}
_CUSTOM = {MODE: "CUSTOM", STRATEGY: PAYLOAD_ID}
_OVERWRITES = {PAYLOAD: PACKAGE + "OverwriteWithLatestAvroPayload"}
_MARKER = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its version and properties, the kinds of log versions, and the releases that are asked.

    ``has_nulls`` is whether rows may lack an ordering value. ``is_asked`` leaves out sequences at which releases fail.
    """

    version: int
    options: Mapping[str, str]
    releases: Sequence[str]
    kinds: Sequence[str] = ("RMD",)
    ordering: str = "int"
    has_nulls: bool = True
    longest: int = 3
    is_asked: Callable[[Sequence[Version]], bool] = lambda _: True

    def sequences(self) -> Iterator[Sequence[Version]]:
        """All sequences of log versions."""
        of_rows = (None, *VALUES) if self.has_nulls else VALUES
        of_deletes = (None, *VALUES) if self.ordering == "int" else VALUES
        for kinds in self.kinds:
            versions = [(kind, value) for kind in kinds for value in (of_deletes if kind == "D" else of_rows)]
            for length in range(1, self.longest + 1):
                yield from filter(self.is_asked, itertools.product(versions, repeat=length))


def _of_payload(version: int, payload: str, releases: Sequence[str], **more: object) -> Table:
    options = {PAYLOAD: PACKAGE + payload} | (_CUSTOM if version == 8 else {})
    return Table(version=version, options=options, releases=releases, **more)  # type: ignore[arg-type]


def _has_ordered_rows(versions: Sequence[Version]) -> bool:
    """Whether rows have ordering values: Hudi compares those without one by the values that fill them."""
    return ("R", None) not in versions


def _is_merged_by_12(versions: Sequence[Version]) -> bool:
    """Whether 1.2 merges the versions: it fails where a mark fills a row, which it then cannot insert."""
    rows = [kind for kind, value in versions if kind == "R" or (kind == "M" and value is not None)]
    return _has_ordered_rows(versions) and not ("R" in rows and "M" in rows)


OF_0X = ("RMD", "ROD")
TABLES = {
    "latest_v6": _of_payload(6, "OverwriteWithLatestAvroPayload", ["0.15.0"], kinds=OF_0X, has_nulls=False),
    "default_v6": _of_payload(6, "DefaultHoodieRecordPayload", ["0.15.0"], kinds=OF_0X, has_nulls=False),
    "default_long_v6": _of_payload(6, "DefaultHoodieRecordPayload", ["0.15.0"], ordering="long", has_nulls=False),
    "partial_v6": _of_payload(6, "PartialUpdateAvroPayload", ["0.15.0"], kinds=OF_0X, has_nulls=False),
    "nondefaults_v6": _of_payload(
        6, "OverwriteNonDefaultsWithLatestAvroPayload", ["0.15.0"], kinds=OF_0X, has_nulls=False
    ),
    "event_time_v8": Table(
        version=8, options=_EVENT_TIME | _MARKER, releases=["1.0.2", "1.1.1", "1.2.0"], kinds=("RMD", "RCD")
    ),
    "commit_time_v8": Table(version=8, options=_COMMIT_TIME | _OVERWRITES, releases=["1.0.2", "1.2.0"], longest=2),
    "partial_v8": _of_payload(8, "PartialUpdateAvroPayload", ["1.0.2"], is_asked=_has_ordered_rows),
    "partial_of_12_v8": _of_payload(
        8, "PartialUpdateAvroPayload", ["1.1.1", "1.2.0"], longest=2, is_asked=_is_merged_by_12
    ),
    "nondefaults_v8": _of_payload(8, "OverwriteNonDefaultsWithLatestAvroPayload", ["1.0.2"], has_nulls=False),
    "event_time_v9": Table(version=9, options=_EVENT_TIME, releases=["1.1.1", "1.2.0"]),
    "event_time_long_v9": Table(
        version=9, options=_EVENT_TIME, releases=["1.1.1", "1.2.0"], ordering="long", has_nulls=False
    ),
    "event_time_defaults_v9": Table(
        version=9,
        options=_EVENT_TIME
        | {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
        | {"hoodie.table.legacy.payload.class": PACKAGE + "PartialUpdateAvroPayload"},
        releases=["1.1.1", "1.2.0"],
    ),
}


def write_table(folder: Path, table: Table) -> None:
    """Writes a table with a base file and a log file for each place in the sequences."""
    from tests.support.table_writer import TableWriter, at  # noqa: PLC0415 - needs pytest, which PySpark 3.5 lacks here

    shutil.rmtree(folder, ignore_errors=True)
    has_operation = "O" in "".join(table.kinds)
    fields: tuple[tuple[str, Any], ...] = (
        ("id", "string"),
        ("ts", table.ordering),
        ("val", "string"),
        ("op", "string"),
    )
    fields += (("_hoodie_is_deleted", "boolean"),)
    options = {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}
    options |= {"hoodie.table.base.file.format": "PARQUET"} | dict(table.options)
    if has_operation:
        options["hoodie.allow.operation.metadata.field"] = "true"
    commits = TableWriter(folder=folder, version=table.version, fields=fields, options=options).create()
    # The operation is a meta column: schemas of commits do not have it.
    writer = replace(commits, fields=(("_hoodie_operation", "string"), *fields)) if has_operation else commits
    keys = {_key(base, versions): (base, versions) for versions in table.sequences() for base in BASES}
    base_rows = [_row(key, "base", ("R", base)) for key, (base, _) in keys.items() if base is not None]
    commits.commit(at(1), wrote=[writer.base_file(at(1), base_rows)])
    for place in range(table.longest):
        now = {key: versions[place] for key, (_, versions) in keys.items() if place < len(versions)}
        rows = [_row(key, f"log {place}", version) for key, version in now.items() if version[0] != "D"]
        deletes = [(key, value or 0) for key, (kind, value) in now.items() if kind == "D"]
        blocks = [writer.data_block(at(place + 2), rows), writer.delete_block(at(place + 2), deletes)]
        number = place + 1 if table.version == 6 else 1
        log = writer.log_file(at(place + 2), blocks, base_instant=at(1), number=number)
        commits.commit(at(place + 2), wrote=[log])


def _key(base: int | None, versions: Sequence[Version]) -> str:
    texts = (f"{kind}{'n' if value is None else value}" for kind, value in versions)
    return f"{'-' if base is None else base}|{','.join(texts)}"


def _row(key: str, text: str, version: Version) -> Mapping[str, Any]:
    kind, value = version
    row: dict[str, Any] = {"id": key, "ts": value, "val": text, "op": "D" if kind == "C" else None}
    return row | {"_hoodie_is_deleted": True if kind == "M" else None, "_hoodie_operation": "D" if kind == "O" else "I"}


def ask(spark: SparkSession, folder: Path, release: str) -> None:
    """Keeps what a release makes of a table."""
    # Payloads of 1.x fail if they are not given all columns.
    rows = spark.read.format("hudi").load(str(folder / "table")).collect()
    answer = pa.Table.from_pylist([{name: row[name] for name in ("id", "ts", "val")} for row in rows])
    (folder / "answers").mkdir(exist_ok=True)
    pq.write_table(answer.sort_by("id"), folder / "answers" / f"{release}.parquet", compression="none")
    print(folder.name, release, answer.num_rows, flush=True)


def main() -> None:
    work, what, names = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    tables = {name: table for name, table in TABLES.items() if not names or name in names}
    if what == "write":
        for name, table in tables.items():
            write_table(work / name / "table", table)
        return
    with spark_session(what, RELEASES[what].bundle.fetched()) as spark:
        for name, table in tables.items():
            if what in table.releases:
                ask(spark, work / name, what)
    for path in work.rglob("*.crc"):
        path.unlink()


if __name__ == "__main__":
    main()
