"""Uses the public names as a user would; checked by mypy, never run."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs  # noqa: TID251 - a user brings a file system

import hudi_bridge
from hudi_bridge import (
    BatchScanner,
    ChangeFormat,
    ChangeSplit,
    Explanation,
    FileColumns,
    FileSlice,
    HudiDataset,
    HudiTable,
    InstantRange,
    MergeMode,
    OnFilesGone,
    QueryType,
    RealtimeCompactedReader,
    RealtimeFileSplit,
    RecordPayload,
    SchemaVersion,
    SkippedBlocks,
    Split,
    TableConfig,
    TableType,
    Timeline,
    open_reader,
    tools,
    variant_path,
)
from hudi_bridge.connectors.duckdb import Attached, Lake, ViewPlan, attach, attach_all
from hudi_bridge.engines import StoredBaseFile, slice_delta
from hudi_bridge.inspection import (
    inspect_columns,
    inspect_file_slices,
    inspect_files,
    inspect_splits,
    inspect_table,
    inspect_timeline,
)
from hudi_bridge.schema.difference import SchemaChangeKind
from hudi_bridge.tools import RecordHistory, RecordVersion


def read_a_table() -> pa.Table:
    table = HudiTable.open("s3://bucket/trips")
    later: HudiTable = table.refresh()
    latest: str | None = later.latest_instant
    schema: pa.Schema = table.schema
    snapshot: HudiDataset = table.snapshot(as_of=latest)
    rows: pa.Table = snapshot.to_table(columns=schema.names[:2], filter=pc.field("fare") > 1)
    return rows


def stream_a_table(filesystem: fs.FileSystem) -> int:
    dataset: ds.Dataset = HudiTable.open("bucket/trips", filesystem).read_optimized("2026-01-31 12:00:00")
    return sum(batch.num_rows for batch in dataset.to_batches(columns=["id"]))


def follow(table: HudiTable, after: str) -> tuple[pa.Table, str | None]:
    changed: HudiDataset = table.incremental(after, up_to=None)
    return changed.to_table(), changed.next_after


def follow_changes(table: HudiTable, after: str) -> tuple[pa.Table, str | None, ChangeSplit]:
    changed: HudiDataset = table.changes(after, up_to=None, format=ChangeFormat.CDC)
    split: ChangeSplit = ChangeSplit.from_json(next(changed.splits()).to_json())
    return table.changes(after, format="rows").to_table(columns=["op", "after"]), changed.next_after, split


def plan_again(table: HudiTable) -> tuple[HudiDataset, HudiDataset, pa.Table]:
    of_now: HudiDataset = table.snapshot(on_files_gone=OnFilesGone.REPLAN)
    return of_now, table.read_optimized(on_files_gone="error"), table.get("k", on_files_gone="replan")


def count(dataset: HudiDataset) -> tuple[int, int]:
    return dataset.filter(pc.field("city") == "sf").count_rows(), dataset.left_out_log_files()


def explain(dataset: HudiDataset) -> tuple[Explanation, list[str | None], list[str]]:
    actual: Explanation = dataset.explain(pc.field("city") == "sf", ["id"])
    return actual, [step.why_not for step in actual.steps], [item.file_id for item in actual.slices if item.base_bytes]


def send_splits_to_executors(table: HudiTable) -> list[str]:
    splits = table.splits(query_type=QueryType.SNAPSHOT, filter=pc.field("city") == "sf")
    return [split.to_json() for split in splits]


def read_in_an_executor(letter: str) -> int:
    split: RealtimeFileSplit = RealtimeFileSplit.from_json(letter)
    reader: RealtimeCompactedReader = open_reader(split, columns=["id"], row_filter=pc.field("fare") > 1)
    names: list[str] = reader.schema.names
    return sum(batch.num_rows for batch in reader.batches()) + len(names)


def take_some_of_each_split(dataset: HudiDataset) -> Iterator[pa.RecordBatch]:
    splits: list[Split] = list(dataset.splits())
    for split in splits:
        with open_reader(split) as reader:
            for batch in reader:
                yield batch
                break


def hand_a_split_to_arrow(split: RealtimeFileSplit) -> tuple[pa.Table, pa.RecordBatchReader]:
    reader = open_reader(split)
    return reader.to_table(), reader.to_reader()


def say_when_and_where_as_python_does(folder: Path, connection: duckdb.DuckDBPyConnection) -> list[HudiDataset]:
    table = HudiTable.open(folder / "trips")
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    attach(connection, folder / "trips", as_of=date(2026, 1, 31), after=an_hour_ago)
    return [
        table.snapshot(date(2026, 1, 31)),
        table.read_optimized(an_hour_ago),
        table.incremental(date(2026, 1, 31), an_hour_ago),
        table.changes(after=an_hour_ago),
    ]


def look_at_the_timeline(table: HudiTable) -> list[str | None]:
    timeline: Timeline = table.timeline
    instants: InstantRange = table.instant_range("earliest")
    return [instants.next_after, *(commit.completion_time for commit in timeline.commits())]


def look_at_the_files(table: HudiTable) -> int:
    slices: tuple[FileSlice, ...] = table.file_slices()
    sizes = [item.base_file.size_bytes for item in slices if item.base_file is not None]
    return sum(sizes) + sum(log.size_bytes for item in slices for log in item.log_files)


def look_at_what_a_table_says_of_itself(table: HudiTable) -> bool:
    config: TableConfig = table.config
    return config.table_type is TableType.MERGE_ON_READ and config.merge_mode is MergeMode.EVENT_TIME


def look_at_the_schema(table: HudiTable) -> list[str]:
    versions: tuple[SchemaVersion, ...] = table.schema_history
    columns: tuple[FileColumns, ...] = table.file_columns(Path("sf/f1-0_0-1-1_20260131120000000.parquet"))
    renamed = [
        str(change) for version in versions for change in version.changes if change.kind is SchemaChangeKind.RENAMED
    ]
    return renamed + [mapping.outcome for column in columns for mapping in column.columns]


def follow_one_record(table: HudiTable) -> list[RecordVersion]:
    history: RecordHistory = tools.history_of(table, "order-4711")
    return [group.versions[group.winner - 1] for group in history.file_groups if group.winner is not None]


def scan(dataset: HudiDataset) -> tuple[pa.Schema, int]:
    scanner: BatchScanner = dataset.scanner(columns={"cents": pc.field("fare")}, filter=pc.field("fare") > 1)
    dataset.to_table({"city": variant_path("v", "address", 0), "id": pc.field("id")})
    skipped: SkippedBlocks = dataset.skipped_log_blocks()
    return scanner.projected_schema, skipped.corrupt


class Longest(RecordPayload):
    def pre_combine(self, older: Mapping[str, Any], newer: Mapping[str, Any]) -> Mapping[str, Any]:
        return max(older, newer, key=lambda row: len(row["name"]))


def merge_with_a_payload(path: str) -> HudiTable:
    return HudiTable.open(path, payloads={"com.acme.Longest": Longest()}, log_memory_bytes=1 << 30)


def read_a_base_file_as_an_engine(letter: str) -> tuple[int, int] | str:
    split = RealtimeFileSplit.from_json(letter)
    with slice_delta(split, columns=["id"]) as delta:
        base: StoredBaseFile | None = delta.base_file
        if base is not None and (reason := base.reason_incompatible(widens=[("int", "long")])) is not None:
            return reason
        rows = sum(batch.num_rows for batch in delta.rows())
        return rows, len(delta.deleted_positions)


def handle_errors(path: str) -> str | None:
    try:
        HudiTable.open(path)
    except hudi_bridge.TableNotFoundError as error:
        return error.path
    except hudi_bridge.UnsupportedTableError as error:
        return f"{error.feature}: {error.found}, {error.supported}"
    except hudi_bridge.CorruptTableError as error:
        return f"{error.path} at {error.offset or 0}"
    except hudi_bridge.HudiReadError as error:
        return str(error)
    return None


def query_with_duckdb(path: str) -> hudi_bridge.HudiReadError | None:
    with duckdb.connect() as connection:
        attached: Attached = attach(connection, path, "trips", as_of="2026-01-31")
        names: tuple[str, ...] = attached.names
        instant: str = attached.instant
        try:
            attached.connection.execute(f"SELECT * FROM {names[0]} WHERE _hoodie_commit_time > '{instant}'")
        except duckdb.Error as error:
            return attached.cause_of(error)
        plans: Mapping[str, ViewPlan] = attached.plan()
        assert plans[names[0]].is_native
        attached.refresh()
        attached.detach()
        lake: Lake = attach_all(connection, path, "lake", cache="merges")
        tables: list[str] = lake.tables()
        lake.sql(f"FROM lake.{tables[0]}")
    return None


def inspection(table: HudiTable) -> list[pa.Table]:
    return [
        inspect_table(table),
        inspect_timeline(table),
        inspect_file_slices(table, as_of="2026-01-31"),
        inspect_files(table),
        inspect_splits(table, query_type=QueryType.READ_OPTIMIZED),
        inspect_columns(table, date(2026, 1, 31)),
    ]
