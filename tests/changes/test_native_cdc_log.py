"""Native log files of change data (table version 10), written by hand as ``HoodieNativeCDCLogger`` does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge import CorruptLogFileError, HudiDataset, HudiTable, UnsupportedTableError
from tests.changes.cdc_tables import AFTER, BASE, CHANGES, data, logged_table, since_the_first
from tests.logformat.native_writer import FORMATS, write_native
from tests.support.compare import differences
from tests.support.table_writer import TableWriter, at, completion_of, sorted_column

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
    image = {"type": "record", "name": "image", "fields": table.avro_schema["fields"]}
    optional = ["null", "string"]
    types = {
        "op": optional,
        "record_key": optional,
        "ts_ms": optional,
        "before": ["null", image],
        "after": ["null", "image" if mode == "DATA_BEFORE_AFTER" else image],
    }
    stored = [
        {"op": op, "record_key": key, "ts_ms": at(2), "before": before, "after": after}
        for op, key, before, after in CHANGES
    ]
    if changed is not None:
        stored = [row | {name: values[number] for name, values in changed.items()} for number, row in enumerate(stored)]
        types |= {
            name: ["null", "long" if isinstance(values[0], int) else "string"] for name, values in changed.items()
        }
    schema = {
        "type": "record",
        "name": "changes",
        "fields": [{"name": name, "type": types[name], "default": None} for name in FIELDS[mode]],
    }
    log = folder / f"f1-0_0-1-1_{at(2)}_1.cdc.{extension}"
    rows = [{name: row[name] for name in FIELDS[mode]} for row in stored]
    write_native(log, rows, schema, [key for _, key, _, _ in CHANGES], {})
    table.commit(at(2), action="commit", wrote=[path], logged=[log])
    return table


def changes(table: TableWriter, **options: Any) -> HudiDataset:
    return HudiTable.open(str(table.folder), options=UNRELEASED).changes(completion_of(at(1)), **options)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("mode", MODES)
def test_changes_are_those_of_the_same_log_in_blocks(tmp_path: Path, mode: str, file_format: str) -> None:
    rows = changes(native_table(tmp_path / "10", mode, extension=file_format)).to_table()
    actual = [(row["op"], data(row["before"]), data(row["after"])) for row in rows.to_pylist()]
    # An HFile has the changes by key.
    assert sorted(actual, key=repr) == sorted([(op, before, after) for op, _, before, after in CHANGES], key=repr)
    assert not differences(since_the_first(logged_table(tmp_path / "9", mode)).to_table(), rows)


@pytest.mark.parametrize("mode", MODES)
def test_images_that_nobody_asks_for_are_not_looked_for(tmp_path: Path, mode: str) -> None:
    table = native_table(tmp_path, mode)
    dataset = changes(table)
    for path in table.folder.glob(f"*_{at(1)}.parquet"):
        path.unlink()
    assert dataset.to_table(columns=["op"]).to_pydict() == {"op": ["u", "d", "i"]}


def test_json_of_images_is_without_meta_columns_which_are_not_stored(tmp_path: Path) -> None:
    actual = changes(native_table(tmp_path, "DATA_BEFORE_AFTER"), format="cdc").to_table()
    assert actual["before"].to_pylist() == ['{"id":"a","ts":1,"value":"a1"}', '{"id":"b","ts":1,"value":"b1"}', None]
    assert actual["after"].to_pylist() == ['{"id":"a","ts":2,"value":"a2"}', None, '{"id":"c","ts":2,"value":"c2"}']


def test_snapshots_pass_over_change_data(tmp_path: Path) -> None:
    table = HudiTable.open(str(native_table(tmp_path, "DATA_BEFORE").folder), options=UNRELEASED)
    assert sorted_column(table.snapshot().to_table(), "id") == ["a", "c"]


def test_native_change_data_of_unknown_formats_is_refused(tmp_path: Path) -> None:
    table = native_table(tmp_path, "DATA_BEFORE")
    (log,) = table.folder.glob("*.cdc.parquet")
    vortex = log.rename(log.with_suffix(".vortex"))
    table.commit(at(2), action="commit", wrote=[next(table.folder.glob(f"*_{at(2)}.parquet"))], logged=[vortex])
    with pytest.raises(UnsupportedTableError, match=r"native log file f1-0_.*\.cdc\.vortex"):
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
