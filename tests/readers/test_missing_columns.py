"""Columns that the writer of a log block did not know: they have the defaults of the table's schema, or are null."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.schema.file_columns import Outcome
from tests.logformat.hfile_writer import hfile
from tests.logformat.log_writer import log_block
from tests.support.table_writer import TableWriter, at

COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}


def record(name: str, *, is_new: bool) -> dict[str, Any]:
    fields = [{"name": "x", "type": ["null", "string"], "default": None}]
    fields += [{"name": "y", "type": "string", "default": "dy"}] if is_new else []
    return {"type": "record", "name": name, "fields": fields}


def nested(*, is_new: bool) -> tuple[tuple[str, Any], ...]:
    return (
        ("s", record("s", is_new=is_new)),
        ("l", {"type": "array", "items": record("l", is_new=is_new)}),
        ("m", {"type": "map", "values": record("m", is_new=is_new)}),
    )


KEYS = (("id", "string"), ("ts", "long"))
ADDED = (("text", "string"), ("n", "int"), ("tags", {"type": "array", "items": "string"}), ("plain", "string"))
DEFAULTS = {"text": "none", "n": 500, "tags": ["q"]}
ROW: dict[str, Any] = {"id": "a", "ts": 2, "s": {"x": "1"}, "l": [{"x": "2"}], "m": {"k": {"x": "3"}}}
WITH_DEFAULTS = {
    "id": "a",
    "ts": 2,
    "s": {"x": "1", "y": "dy"},
    "l": [{"x": "2", "y": "dy"}],
    "m": [("k", {"x": "3", "y": "dy"})],
    "text": "none",
    "n": 500,
    "tags": ["q"],
    "plain": None,
}
WITH_NULLS = WITH_DEFAULTS | {
    "s": {"x": "1", "y": None},
    "l": [{"x": "2", "y": None}],
    "m": [("k", {"x": "3", "y": None})],
    "text": None,
    "n": None,
    "tags": None,
}


def writers(
    folder: Path, version: int = 9, options: Mapping[str, str] = COMMIT_TIME
) -> tuple[TableWriter, TableWriter]:
    """Those of a table before and after columns and fields were added."""
    old = TableWriter(folder=folder, version=version, fields=(*KEYS, *nested(is_new=False)), options=options).create()
    return old, replace(old, fields=(*KEYS, *nested(is_new=True), *ADDED), defaults=DEFAULTS)


def written(folder: Path, version: int = 9, options: Mapping[str, str] = COMMIT_TIME) -> HudiTable:
    """A table with one log file, by the writer before."""
    old, new = writers(folder, version, options)
    log = new.log_file(at(2), [old.data_block(at(2), [ROW])], base_instant=at(1))
    new.commit(at(2), wrote=[log])
    return new.open()


def own(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_hoodie_")}


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        (9, COMMIT_TIME, WITH_DEFAULTS),
        (8, COMMIT_TIME | {"hoodie.table.format": "native"}, WITH_DEFAULTS),
        (8, COMMIT_TIME, WITH_NULLS),
        (
            6,
            {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"},
            WITH_DEFAULTS,
        ),
    ],
    ids=["1.1", "1.1 in version 8", "1.0", "0.x"],
)
def test_avro_blocks_have_defaults_but_for_1_0(
    version: int, options: Mapping[str, str], expected: Mapping[str, Any], tmp_path: Path
) -> None:
    table = written(tmp_path / "t", version, options)
    assert [own(row) for row in table.snapshot().to_table().to_pylist()] == [expected]
    chosen = table.snapshot().to_table(columns=["n", "s"]).to_pylist()
    assert chosen == [{"n": expected["n"], "s": expected["s"]}]


def test_hfile_blocks_have_defaults(tmp_path: Path) -> None:
    old, new = writers(tmp_path / "t")
    (avro,) = scan_blocks(old.data_block(at(2), [ROW]), "log").blocks
    # Its only record comes after three numbers.
    content = hfile([[(b"a", bytes(avro.content)[12:])]])
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: at(2), HeaderKey.SCHEMA: avro.schema_text or ""}
    log = new.log_file(at(2), [log_block(BlockType.HFILE_DATA, content, header)])
    new.commit(at(2), wrote=[log])
    (row,) = new.open().snapshot().to_table().to_pylist()
    assert {name: row[name] for name in ("text", "n", "s")} == {"text": "none", "n": 500, "s": {"x": "1", "y": "dy"}}


def test_rows_of_base_files_have_nulls(tmp_path: Path) -> None:
    old, new = writers(tmp_path / "t")
    base = old.base_file(at(1), [ROW | {"m": list(ROW["m"].items())}])
    new.commit(at(1), wrote=[base])
    assert [own(row) for row in new.open().snapshot().to_table().to_pylist()] == [WITH_NULLS]


def test_partial_updates_leave_columns_as_they_are(tmp_path: Path) -> None:
    table = TableWriter(
        folder=tmp_path / "t", fields=(*KEYS, ("text", "string"), ("n", "int")), defaults=DEFAULTS, options=COMMIT_TIME
    ).create()
    base = table.base_file(at(1), [{"id": "a", "ts": 1, "text": "kept", "n": 1}])
    table.commit(at(1), wrote=[base])
    log = table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 2, "n": 2}], only=("id", "ts", "n"))])
    table.commit(at(2), wrote=[log])
    (row,) = table.open().snapshot().to_table().to_pylist()
    assert own(row) == {"id": "a", "ts": 2, "text": "kept", "n": 2}


def test_a_default_orders_rows(tmp_path: Path) -> None:
    options = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    new = TableWriter(
        folder=tmp_path / "t", fields=(("id", "string"), ("ts", "long")), defaults={"ts": 5}, options=options
    ).create()
    old = replace(new, fields=(("id", "string"),))
    base = new.base_file(at(1), [{"id": "a", "ts": 4}, {"id": "b", "ts": 6}])
    new.commit(at(1), wrote=[base])
    new.commit(at(2), wrote=[new.log_file(at(2), [old.data_block(at(2), [{"id": "a"}, {"id": "b"}])])])
    rows = new.open().snapshot().to_table(columns=["id", "ts"]).to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [{"id": "a", "ts": 5}, {"id": "b", "ts": 6}]


def test_a_default_that_is_no_value_is_refused(tmp_path: Path) -> None:
    old, new = writers(tmp_path / "t")
    wrong = replace(new, defaults={"n": "text"})
    log = wrong.log_file(at(2), [old.data_block(at(2), [ROW])])
    wrong.commit(at(2), wrote=[log])
    with pytest.raises(UnsupportedTableError, match='default: found "text" of n, supported: values of type int32'):
        wrong.open().snapshot().to_table()


def test_how_a_file_is_read_tells_of_defaults(tmp_path: Path) -> None:
    table = written(tmp_path / "t")
    (log,) = (path for path in (tmp_path / "t").iterdir() if ".log." in path.name)
    (block,) = table.file_columns(log.name)
    outcomes = {column.column: column.outcome for column in block.columns}
    assert {name for name, outcome in outcomes.items() if outcome is Outcome.DEFAULT} == {
        *DEFAULTS,
        "s.y",
        "l.element.y",
        "m.value.y",
    }
    assert (outcomes["plain"], outcomes["s"]) == (Outcome.MISSING, Outcome.CHANGED_INSIDE)


def test_sql_that_decodes_blocks_is_refused(tmp_path: Path) -> None:
    new = TableWriter(
        folder=tmp_path / "t", fields=(*KEYS, ("n", "int")), defaults=DEFAULTS, options=COMMIT_TIME
    ).create()
    new.commit(at(1), wrote=[new.base_file(at(1), [{"id": "a", "ts": 1, "n": 1}])])
    old = replace(new, fields=KEYS)
    new.commit(at(2), wrote=[new.log_file(at(2), [old.data_block(at(2), [{"id": "a", "ts": 2}])])])
    with pytest.raises(UnsupportedTableError, match="n: its default: not in the file"):
        publish_log_records(new.open(), str(tmp_path / "own"), unmerged=True)
