"""Uses the public names as a user would; checked by mypy, never run."""

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs  # noqa: TID251 - a user brings a file system

import hudi_bridge
from hudi_bridge import ChangeFormat, ChangeSplit, HudiDataset, HudiTable, QueryType, RealtimeFileSplit
from hudi_bridge.connectors.duckdb import Attached, attach
from hudi_bridge.inspection import inspect_file_slices, inspect_files, inspect_splits, inspect_table, inspect_timeline


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


def count(dataset: HudiDataset) -> tuple[int, int]:
    return dataset.filter(pc.field("city") == "sf").count_rows(), dataset.left_out_log_files()


def send_splits_to_executors(table: HudiTable) -> list[str]:
    splits = table.splits(query_type=QueryType.SNAPSHOT, filter=pc.field("city") == "sf")
    return [split.to_json() for split in splits]


def read_in_an_executor(letter: str) -> int:
    split: RealtimeFileSplit = RealtimeFileSplit.from_json(letter)
    reader = hudi_bridge.open_reader(split, columns=["id"], row_filter=pc.field("fare") > 1)
    names: list[str] = reader.schema.names
    return sum(batch.num_rows for batch in reader.batches()) + len(names)


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
        attached.refresh()
        attached.detach()
    return None


def inspection(table: HudiTable) -> list[pa.Table]:
    return [
        inspect_table(table),
        inspect_timeline(table),
        inspect_file_slices(table, as_of="2026-01-31"),
        inspect_files(table),
        inspect_splits(table, query_type=QueryType.READ_OPTIMIZED),
    ]
