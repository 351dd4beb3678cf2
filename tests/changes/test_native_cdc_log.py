"""Native log files of change data (table version 10), written by hand as ``HoodieNativeCDCLogger`` does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptLogFileError, HudiDataset, HudiTable, UnsupportedTableError
from tests.changes.cdc_tables import AFTER, BASE, CHANGES, data, logged_table, since_the_first
from tests.support.compare import differences
from tests.support.table_writer import META_FIELDS, TableWriter, at, completion_of, sorted_column

UNRELEASED = {"hudi_bridge.read.unreleased": "true"}
MODES = ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"]
FIELDS = {
    "OP_KEY_ONLY": ("op", "record_key"),
    "DATA_BEFORE": ("op", "record_key", "before"),
    "DATA_BEFORE_AFTER": ("op", "ts_ms", "before", "after"),
}


def native_table(
    folder: Path,
    mode: str,
    *,
    version: int = 10,
    extension: str = "parquet",
    changed: Mapping[str, list[Any]] | None = None,
) -> TableWriter:
    """A copy-on-write table of two commits, of which the second has logged its changes in a native log file."""
    options = {
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
    }
    table = TableWriter(folder=folder, version=version, options=options).create()
    table.commit(at(1), action="commit", wrote=[table.base_file(at(1), BASE)])
    path = table.base_file(at(2), AFTER)
    image = pa.struct([field for field in table.arrow_schema if field.name not in META_FIELDS])
    stored = {
        "op": pa.array([op for op, _, _, _ in CHANGES]),
        "record_key": pa.array([key for _, key, _, _ in CHANGES]),
        "ts_ms": pa.array([at(2)] * len(CHANGES)),
        "before": pa.array([before for _, _, before, _ in CHANGES], image),
        "after": pa.array([after for _, _, _, after in CHANGES], image),
    } | {name: pa.array(values) for name, values in (changed or {}).items()}
    log = folder / f"f1-0_0-1-1_{at(2)}_1.cdc.{extension}"
    pq.write_table(pa.table({name: stored[name] for name in FIELDS[mode]}), log)
    table.commit(at(2), action="commit", wrote=[path], logged=[log])
    return table


def changes(table: TableWriter, **options: Any) -> HudiDataset:
    return HudiTable.open(str(table.folder), options=UNRELEASED).changes(completion_of(at(1)), **options)


@pytest.mark.parametrize("mode", MODES)
def test_changes_are_those_of_the_same_log_in_blocks(tmp_path: Path, mode: str) -> None:
    rows = changes(native_table(tmp_path / "10", mode)).to_table()
    assert [(row["op"], data(row["before"]), data(row["after"])) for row in rows.to_pylist()] == [
        (op, before, after) for op, _, before, after in CHANGES
    ]
    assert not differences(since_the_first(logged_table(tmp_path / "9", mode)).to_table(), rows)


@pytest.mark.parametrize("mode", MODES)
def test_images_that_nobody_asks_for_are_not_looked_for(tmp_path: Path, mode: str) -> None:
    table = native_table(tmp_path, mode)
    dataset = changes(table)
    for path in table.folder.glob(f"*_{at(1)}.parquet"):
        path.unlink()
    assert dataset.to_table(columns=["op"]).to_pydict() == {"op": ["u", "d", "i"]}


def test_json_of_images_is_without_meta_columns_which_are_not_stored(tmp_path: Path) -> None:
    found = changes(native_table(tmp_path, "DATA_BEFORE_AFTER"), format="cdc").to_table()
    assert found["before"].to_pylist() == ['{"id":"a","ts":1,"value":"a1"}', '{"id":"b","ts":1,"value":"b1"}', None]
    assert found["after"].to_pylist() == ['{"id":"a","ts":2,"value":"a2"}', None, '{"id":"c","ts":2,"value":"c2"}']


def test_snapshots_pass_over_change_data(tmp_path: Path) -> None:
    table = HudiTable.open(str(native_table(tmp_path, "DATA_BEFORE").folder), options=UNRELEASED)
    assert sorted_column(table.snapshot().to_table(), "id") == ["a", "c"]


@pytest.mark.parametrize(("version", "extension"), [(9, "parquet"), (10, "lance")])
def test_native_change_data_of_other_tables_and_formats_is_refused(
    tmp_path: Path, version: int, extension: str
) -> None:
    table = native_table(tmp_path, "DATA_BEFORE", version=version, extension=extension)
    with pytest.raises(UnsupportedTableError, match=rf"native log file f1-0_.*\.cdc\.{extension}"):
        changes(table).to_table()


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"op": ["x", "d", "i"]}, "the operation 'x'"),
        ({"op": [1, 2, 3]}, "op, record_key, before"),
        ({"before": ["a", "b", "c"]}, "before that is no record"),
    ],
)
def test_change_data_that_is_none(tmp_path: Path, changed: dict[str, list[Any]], found: str) -> None:
    with pytest.raises(CorruptLogFileError, match=found):
        changes(native_table(tmp_path, "DATA_BEFORE", changed=changed)).to_table()


def test_damage_is_an_error_since_changes_would_be_lost(tmp_path: Path) -> None:
    table = native_table(tmp_path, "DATA_BEFORE")
    (log,) = table.folder.glob("*.cdc.parquet")
    log.write_bytes(log.read_bytes()[:-20])
    with pytest.raises(CorruptLogFileError, match=r"cdc\.parquet"):
        changes(table).to_table()
