"""The columns of a table as of an instant."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge import tools
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import CorruptTableError
from tests.support.table_writer import KEY_AND_VALUE, META_FIELDS, TableWriter, at

OWN = ("id", "ts", "value")
SERVICES = ("CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT")


def ids(version: str, *fields: tuple[int, str, Any]) -> dict[str, Any]:
    """A version of a schema with column ids."""
    listed = [{"id": number, "name": name, "optional": True, "type": kind} for number, name, kind in fields]
    return {"type": "record", "version_id": int(version), "max_column_id": 9, "fields": listed}


def renamed_table(folder: Path, version: int) -> TableWriter:
    """A table in which ``old``, also a field of a struct, was renamed to ``new`` at 2, before a clustering at 3."""
    struct = {"type": "record", "name": "s", "fields": [{"name": "old", "type": ["null", "string"]}]}
    struct_then = {"type": "record", "name": "s", "fields": [{"name": "new", "type": ["null", "string"]}]}
    before = TableWriter(folder=folder, version=version, fields=(*KEY_AND_VALUE, ("old", "string"), ("s", struct)))
    before.create()
    rows = [{"id": "1", "ts": 1, "value": "a", "old": "x", "s": {"old": "y"}}]
    before.commit(at(1), wrote=[before.base_file(at(1), rows)])
    after = TableWriter(folder=folder, version=version, fields=(*KEY_AND_VALUE, ("new", "string"), ("s", struct_then)))
    own = ((0, "id", "string"), (1, "ts", "long"), (2, "value", "string"))

    def with_names(instant: str, name: str) -> dict[str, Any]:
        inner = {"type": "record", "fields": [{"id": 5, "name": name, "optional": True, "type": "string"}]}
        return ids(instant, *own, (3, name, "string"), (4, "s", inner))

    newest = with_names(at(2), "new")
    history = folder / ".hoodie" / ".schema"
    history.mkdir()
    versions = {"schemas": [newest, with_names("0", "old")]}
    (history / f"{at(2)}.schemacommit").write_text(json.dumps(versions))
    after.commit(at(2), operation="ALTER_SCHEMA", extra={"latest_schema": json.dumps(newest)})
    rows = [{"id": "2", "ts": 3, "value": "b", "new": "z", "s": {"new": "w"}}]
    clustered = after.base_file(at(3), rows, file_id="f2-0")
    after.commit(at(3), action="replacecommit", operation="CLUSTER", wrote=[clustered])
    return after


def renamed_values(dataset: HudiDataset) -> list[tuple[str, Any, Any]]:
    rows = dataset.to_table(columns=["id", "new", "s"]).to_pylist()
    # A struct of which a file has no field is null.
    return sorted((row["id"], row["new"], row["s"] and row["s"]["new"]) for row in rows)


@pytest.mark.parametrize("version", [6, 9])
def test_the_newest_commit_with_a_schema_decides(tmp_path: Path, version: int) -> None:
    table = TableWriter(folder=tmp_path, version=version).create()
    table.commit(at(1))
    TableWriter(folder=tmp_path, version=version, fields=(*KEY_AND_VALUE, ("late", "double"))).commit(at(2))
    opened = table.open()
    assert opened.schema.names == [*META_FIELDS, *OWN, "late"]
    assert opened.schema.field("late").type == pa.float64()
    assert opened.snapshot(at(1)).schema.names == [*META_FIELDS, *OWN]


@pytest.mark.parametrize("version", [6, 9])
def test_a_commit_without_a_schema_is_passed_over(tmp_path: Path, version: int) -> None:
    table = TableWriter(folder=tmp_path, version=version).create()
    table.commit(at(1))
    name = f"{at(2)}.deltacommit" if version < 8 else f"{at(2)}_{at(3)}.deltacommit"
    (table.timeline_folder / name).write_bytes(b"")
    assert table.open().schema.names == [*META_FIELDS, *OWN]


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("operation", SERVICES)
def test_a_table_service_does_not_decide_on_the_columns(tmp_path: Path, version: int, operation: str) -> None:
    table = TableWriter(folder=tmp_path, version=version, fields=(*KEY_AND_VALUE, ("late", "double"))).create()
    table.commit(at(1))
    stale = TableWriter(folder=tmp_path, version=version)
    stale.commit(at(2), action="replacecommit", operation=operation)
    opened = table.open()
    assert opened.schema.names == [*META_FIELDS, *OWN, "late"]
    assert opened.snapshot(at(1)).schema.names == opened.schema.names
    # As of an instant, Hudi does not ask what the commit did.
    assert opened.snapshot(at(2)).schema.names == [*META_FIELDS, *OWN]
    assert opened.incremental("earliest").schema.names == opened.schema.names
    (version_of_history,) = opened.schema_history
    assert version_of_history.arrow_schema.names == opened.schema.names
    table.commit(at(3))
    assert table.open().snapshot(at(2)).schema.names == [*META_FIELDS, *OWN]


@pytest.mark.parametrize("version", [6, 9])
def test_column_ids_are_kept_after_a_clustering(tmp_path: Path, version: int) -> None:
    table = renamed_table(tmp_path, version).open()
    assert renamed_values(table.snapshot()) == [("1", "x", "y"), ("2", "z", "w")]
    assert renamed_values(table.incremental("earliest")) == [("1", "x", "y"), ("2", "z", "w")]
    assert renamed_values(table.snapshot(at(2))) == [("1", "x", "y")]
    # At the instant of the clustering, Hudi finds no ids.
    assert renamed_values(table.snapshot(at(3))) == [("1", None, None), ("2", "z", "w")]


def test_the_schema_of_a_table_service_is_better_than_none(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    written = table.base_file(at(1), [{"id": "1", "ts": 1, "value": "a"}])
    table.commit(at(1), action="commit", operation="COMPACT", wrote=[written])
    assert table.open().snapshot().to_table(columns=["id", "value"]).to_pylist() == [{"id": "1", "value": "a"}]


@pytest.mark.parametrize("version", [6, 9])
def test_the_newest_columns_are_those_of_an_archived_instant(tmp_path: Path, version: int) -> None:
    table = TableWriter(folder=tmp_path, version=version).create()
    table.base_file(at(1), [{"id": "1", "ts": 1, "value": "old"}])
    later = TableWriter(folder=tmp_path, version=version, fields=(*KEY_AND_VALUE, ("late", "double")))
    row = {"id": "1", "ts": 5, "value": "new", "late": 0.5}
    later.commit(at(5), wrote=[later.base_file(at(5), [row])], action="commit")
    table.commit(at(6), action="replacecommit", operation="CLUSTER")
    opened = table.open()
    past = opened.snapshot(at(2))
    assert past.schema.names == [*META_FIELDS, *OWN, "late"]
    assert past.to_table(columns=[*OWN, "late"]).to_pylist() == [{"id": "1", "ts": 1, "value": "old", "late": None}]
    (changed,) = tools.diff(opened, at(2)).to_table().to_pylist()
    assert (changed["before"]["value"], changed["after"]["value"]) == ("old", "new")
    assert changed["changed"] == ["ts", "value", "late"]
    assert tools.history_of(opened, "1", as_of=at(2)).schema.names == past.schema.names


@pytest.mark.parametrize("version", [6, 9])
def test_an_archived_instant_is_read_by_name(tmp_path: Path, version: int) -> None:
    table = renamed_table(tmp_path, version)
    (archived,) = table.timeline_folder.glob(f"{at(1)}*.deltacommit")
    archived.unlink()
    opened = table.open()
    assert renamed_values(opened.snapshot()) == [("1", "x", "y"), ("2", "z", "w")]
    assert renamed_values(opened.snapshot(at(1))) == [("1", None, None)]


def test_the_schema_of_creation_stands_in_for_that_of_a_commit(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "x", "type": ["null", "int"], "default": None}]}
    text = json.dumps(schema).replace(":", "\\:")
    TableWriter(folder=tmp_path, options={"hoodie.table.create.schema": text}).create()
    table = TableWriter(folder=tmp_path).open()
    assert table.schema.names == [*META_FIELDS, "x"]
    assert table.snapshot().count_rows() == 0


def test_a_table_before_its_first_commit_has_no_columns_and_no_rows(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.pending(at(1))
    opened = table.open()
    assert opened.latest_instant is None
    assert opened.schema.names == []
    assert (opened.snapshot().to_table().num_rows, opened.snapshot().count_rows(), opened.splits()) == (0, 0, [])


def test_meta_columns_come_first_whether_or_not_the_schema_names_them(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, fields=(*((name, "string") for name in META_FIELDS), *KEY_AND_VALUE)).create()
    table.commit(at(1))
    assert table.open().schema.names == [*META_FIELDS, *OWN]
    virtual = TableWriter(folder=tmp_path / "virtual", options={"hoodie.populate.meta.fields": "false"}).create()
    virtual.commit(at(1))
    assert virtual.open().schema.names == list(OWN)
    operation = TableWriter(
        folder=tmp_path / "operation", options={"hoodie.allow.operation.metadata.field": "true"}
    ).create()
    operation.commit(at(1))
    assert operation.open().schema.names == [*META_FIELDS, "_hoodie_operation", *OWN]


def test_dropped_partition_columns_come_last_as_text(tmp_path: Path) -> None:
    option = {"hoodie.datasource.write.drop.partition.columns": "true"}
    table = TableWriter(folder=tmp_path, partition_fields=("day", "hour"), options=option).create()
    table.commit(at(1))
    schema = table.open().schema
    assert schema.names == [*META_FIELDS, *OWN, "day", "hour"]
    assert schema.field("day").type == pa.string()
    assert table.open().schema_history[0].arrow_schema.names == schema.names


@pytest.mark.parametrize("options", [{}, {"hoodie.bootstrap.base.path": "/source"}], ids=["plain", "bootstrapped"])
def test_partition_fields_that_are_no_columns_are_not_added(tmp_path: Path, options: dict[str, str]) -> None:
    table = TableWriter(folder=tmp_path, partition_fields=("day", "o.a"), options=options).create()
    table.commit(at(1))
    assert table.open().schema.names == [*META_FIELDS, *OWN]
    assert table.open().schema_history[0].arrow_schema.names == [*META_FIELDS, *OWN]


def test_times_that_a_key_generator_formats_are_text_in_1x(tmp_path: Path) -> None:
    for version, kind in ((6, pa.int64()), (9, pa.string())):
        option = {"hoodie.table.keygenerator.type": "TIMESTAMP"}
        folder = tmp_path / str(version)
        table = TableWriter(folder=folder, version=version, partition_fields=("ts",), options=option).create()
        table.commit(at(1))
        assert table.open().schema.field("ts").type == kind
        assert table.open().read_optimized().schema.field("ts").type == pa.string()


def test_a_schema_that_is_none_is_an_error_that_names_its_commit(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, version=6).create()
    document = {"extraMetadata": {"schema": "{"}}
    (table.timeline_folder / f"{at(1)}.deltacommit").write_text(json.dumps(document))
    with pytest.raises(CorruptTableError, match=at(1)):
        _ = table.open().schema


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 9])
def test_ranges_of_copy_on_write_of_0x_have_no_operations(tmp_path: Path, version: int, table_type: str) -> None:
    options = {"hoodie.table.type": table_type, "hoodie.allow.operation.metadata.field": "true"}
    table = TableWriter(folder=tmp_path, version=version, options=options).create()
    written = table.base_file(at(1), [{"id": "1", "ts": 1, "value": "a"}])
    table.commit(at(1), action="commit", wrote=[written])
    with_operation = [*META_FIELDS, "_hoodie_operation", *OWN]
    opened = table.open()
    assert opened.snapshot().to_table().column_names == with_operation
    leaves_it_out = version == 6 and table_type == "COPY_ON_WRITE"
    expected = [*META_FIELDS, *OWN] if leaves_it_out else with_operation
    rows = opened.incremental("earliest").to_table()
    assert rows.column_names == expected
    assert rows.column("id").to_pylist() == ["1"]
