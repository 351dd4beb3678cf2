import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_bridge.common.caching import BoundedCache
from hudi_bridge.config import read_table_config
from hudi_bridge.errors import CorruptBaseFileError, CorruptLogFileError, CorruptTableError, QueryError
from hudi_bridge.readers.split_columns import plan_file_evolution
from hudi_bridge.schema import evolve, file_columns
from hudi_bridge.schema.difference import SchemaChange, SchemaChangeKind
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.file_columns import Outcome, map_columns
from hudi_bridge.schema.internal import ArrayType, Field, FieldType, MapType, RecordType, internal_from_arrow
from hudi_bridge.splits.schema_history import (
    SchemaVersion,
    _read_stored_schemas,
    propose_schema_history,
    read_file_columns,
    read_schema_history,
)
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.timeline import TableState
from tests.support.golden_cases import golden_case, golden_table
from tests.support.strength import one_in
from tests.support.table_writer import META_FIELDS, TableWriter, at

G_CASES = sorted(path.name for path in golden_case("g_sor_add_120").parent.iterdir() if path.name.startswith("g_"))


def state_of(folder: Path) -> TableState:
    storage = Storage.open(str(folder))
    return TableState.load(storage, read_table_config(storage))


def golden(case: str) -> TableState:
    return state_of(golden_table(case))


def told(versions: tuple[SchemaVersion, ...]) -> list[list[str]]:
    """The changes of each version that has any: a write between two ALTERs may make one of its own."""
    return [[str(change) for change in version.changes] for version in versions if version.changes]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("g_sor_add_120", ["added z double", "added y string after a", "added st record<p int, q string>"]),
        ("g_sor_drop_0150", ["dropped b string"]),
        ("g_sor_drop_111", ["dropped b string"]),
        ("g_sor_rename_120", ["renamed b to bb", "renamed a to aa"]),
        ("g_sor_rename_readd_0150", ["renamed a to a2", "added a int"]),
        ("g_sor_drop_readd_120", ["dropped a int", "added a string"]),
        ("g_sor_reorder_0150", ["moved z after ts", "moved b after z"]),
        ("g_sor_reorder_120", ["moved z after ts", "moved b after z"]),
        (
            "g_sor_collections_0150",
            [
                "added ar.element.w double",
                "renamed m.value.v to m.value.vv",
                "promoted ar.element.k from int to long",
            ],
        ),
        (
            "g_sor_nested_120",
            [
                "added s.c double",
                "renamed s.b to s.bb",
                "promoted s.a from int to long",
                "added s.n.z int after x",
                "renamed s.n.y to s.n.yy",
                "dropped s.bb string",
            ],
        ),
        (
            "g_sor_mixed_0150",
            [
                "renamed a to aa",
                "promoted aa from int to long",
                "promoted f from float to double",
                "dropped b string",
                "added b long after ts",
                "renamed f to g",
            ],
        ),
        (
            "g_sor_type_decimal_120",
            [
                "promoted c0 from decimal(10, 2) to decimal(14, 2)",
                "promoted c1 from decimal(10, 2) to decimal(38, 10)",
                "promoted c2 from decimal(10, 2) to string",
            ],
        ),
        ("g_logs_type_string_0150", ["promoted c0 from string to date", "promoted c1 from string to decimal(10, 3)"]),
    ],
)
def test_the_history_of_a_table_with_ids(case: str, expected: list[str]) -> None:
    versions = read_schema_history(golden(case))
    assert told(versions) == [[text] for text in expected]
    assert all(version.has_ids for version in versions)


SQL_TYPES = {"bigint": "long", "struct<p:int,q:string>": "record<p int, q string>"}


def altered(statement: str) -> str:
    """What an ALTER TABLE changes, in the words of the history, as far as it says so itself."""
    if match := re.fullmatch(r"add columns \((\S+) (\S+)( after \S+)?\)", statement):
        return f"added {match[1]} {hudi_type(match[2])}{match[3] or ''}"
    if match := re.fullmatch(r"drop column (\S+)", statement):
        return f"dropped {match[1]}"
    if match := re.fullmatch(r"rename column (\S+) to (\S+)", statement):
        path = match[1].rpartition(".")
        return f"renamed {match[1]} to {path[0]}{path[1]}{match[2]}"
    if match := re.fullmatch(r"alter column (\S+) type (\S+)", statement):
        return f"promoted {match[1]} to {hudi_type(match[2])}"
    match = re.fullmatch(r"alter column (\S+) (after \S+)", statement)
    assert match is not None, statement
    return f"moved {match[1]} {match[2]}"


def hudi_type(sql: str) -> str:
    return SQL_TYPES.get(sql, sql.replace(",", ", "))


def without_old_type(change: SchemaChange) -> str:
    if change.kind is SchemaChangeKind.DROPPED:
        return f"dropped {change.column}"
    return f"promoted {change.column} to {change.after}" if change.kind is SchemaChangeKind.PROMOTED else str(change)


def alter_statements(case: str) -> list[str]:
    notes = json.loads((golden_case(case) / "case.json").read_text()).get("notes", ())
    matches = (re.fullmatch(r"ALTER TABLE t (.*): ok", note) for note in notes)
    return [match[1] for match in matches if match]


@pytest.mark.parametrize("case", G_CASES)
def test_every_alter_table_is_one_version(case: str) -> None:
    statements = alter_statements(case)
    versions = read_schema_history(golden(case))
    if not statements:
        assert not any(version.has_ids for version in versions)
        return
    changed = [version for version in versions if version.changes]
    assert [[without_old_type(change) for change in version.changes] for version in changed] == [
        [altered(statement)] for statement in statements
    ]


@pytest.mark.parametrize("case", G_CASES)
def test_versions_begin_with_the_first_commit_and_end_with_the_schema_that_is_read(case: str) -> None:
    state = golden(case)
    versions = read_schema_history(state)
    times = [commit.requested_time for commit in state.timeline.commits()]
    assert versions[0].instant == times[0]
    assert versions[0].changes == ()
    assert [version.instant for version in versions] == sorted({version.instant for version in versions} & {*times})
    assert versions[-1].arrow_schema.names == HudiTable.open(state.storage.table_path).schema.names


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (
            "g_add_column_0150",
            [["added extra string"], ["added st record<q int, n string>", "added arr array<double>"]],
        ),
        ("g_reconcile_120", [["added extra string"]]),
        ("g_drop_column_write_0150", [["dropped qty int"]]),
        (
            "g_widen_120",
            [
                [
                    "promoted i_l from int to long",
                    "promoted i_f from int to float",
                    "promoted i_d from int to double",
                    "promoted l_f from long to float",
                    "promoted l_d from long to double",
                    "promoted f_d from float to double",
                    "promoted nest.a from int to long",
                    "promoted arr.element from int to long",
                ]
            ],
        ),
    ],
)
def test_the_history_of_a_table_without_ids(case: str, expected: list[list[str]]) -> None:
    versions = read_schema_history(golden(case))
    assert told(versions) == expected
    assert not any(version.has_ids for version in versions)
    assert {change.id for version in versions for change in version.changes} == {None}


@pytest.mark.parametrize("case", ["d_archived_0150", "d_archived_120"])
def test_archived_commits_count(case: str) -> None:
    state = golden(case)
    (version,) = read_schema_history(state)
    assert version.instant < str(state.timeline.start)
    assert propose_schema_history(state).instants == (version.instant,)


@pytest.mark.parametrize("case", ["i_empty_120", "i_only_inflight_120"])
def test_a_table_without_commits_has_no_versions(case: str) -> None:
    assert read_schema_history(golden(case)) == ()
    assert propose_schema_history(golden(case)).versions == ()


def without_docs(type_: FieldType) -> FieldType:
    match type_:
        case RecordType():
            return RecordType(fields=tuple(undocumented(field) for field in type_.fields))
        case ArrayType():
            return replace(type_, element=without_docs(type_.element))
        case MapType():
            return replace(type_, value=without_docs(type_.value))
        case _:
            return type_


def undocumented(field: Field) -> Field:
    return replace(field, doc=None, type=without_docs(field.type))


@pytest.mark.parametrize(
    "case", [case for case in G_CASES if alter_statements(case) and "rename" not in case and "drop" not in case]
)
def test_a_proposal_from_plain_schemas_is_the_history_that_hudi_kept(case: str) -> None:
    state = golden(case)
    versions = read_schema_history(state)
    proposal = propose_schema_history(state)
    if "renamed" in str(told(versions)):
        assert proposal.ambiguities
        return
    changed = [version for version in versions if version.changes or version is versions[0]]
    assert proposal.instants == tuple(version.instant for version in changed)
    for actual, kept in zip(proposal.versions, changed, strict=True):
        assert actual.fields == tuple(undocumented(field) for field in kept.schema.fields)
        assert (actual.version_id, actual.max_column_id) == (kept.schema.version_id, kept.schema.max_column_id)
    assert proposal.ambiguities == ()


@pytest.mark.parametrize(
    ("case", "instants", "ambiguities"),
    [
        ("g_add_column_0150", 3, []),
        ("g_add_column_120", 3, []),
        ("g_widen_0150", 2, []),
        ("g_widen_120", 2, []),
        ("g_reconcile_0150", 2, []),
        ("g_reconcile_120", 2, []),
        ("g_drop_column_write_0150", 2, []),
        ("g_sor_rename_0150", 3, [("b", "bb"), ("a", "aa")]),
        ("g_sor_drop_readd_0150", 3, [("a", "a")]),
        ("g_sor_nested_120", 7, [("s.b", "s.bb"), ("s.n.y", "s.n.yy")]),
    ],
)
def test_proposals(case: str, instants: int, ambiguities: list[tuple[str, str]]) -> None:
    proposal = propose_schema_history(golden(case))
    assert len(proposal.instants) == instants
    assert [(ambiguity.before, ambiguity.after) for ambiguity in proposal.ambiguities] == ambiguities


def test_files_tell_the_schema_where_a_commit_does_not(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path, version=6).create()
    base = writer.base_file(at(1), [{"id": "k", "ts": 1, "value": "v"}])
    wider = replace(writer, fields=(*writer.fields, ("extra", "int")))
    log = wider.log_file(at(3), [wider.data_block(at(3), [{"id": "k", "ts": 2, "value": "w", "extra": 1}])])
    for number, name in ((1, base.name), (2, "f1-0_0-1-1_20200101000000000.parquet"), (3, log.name)):
        stats = {"": [{"fileId": "f1-0", "path": ".hoodie_partition_metadata"}, {"fileId": "f1-0", "path": name}]}
        (writer.timeline_folder / f"{at(number)}.deltacommit").write_text(json.dumps({"partitionToWriteStats": stats}))
    actual = state_of(tmp_path)
    assert read_schema_history(actual) == ()
    proposal = propose_schema_history(actual)
    assert proposal.instants == (at(1), at(3))
    assert [str(change) for change in proposal.changes[1]] == ["added extra int"]
    assert [field.name for field in proposal.versions[1].fields] == [*META_FIELDS, "id", "ts", "value", "extra"]


def data_files(case: str) -> Iterator[str]:
    table = golden_table(case)
    for path in sorted(table.rglob("*")):
        if path.is_file() and ".hoodie" not in path.parts and not path.name.endswith(".crc"):
            name = str(path.relative_to(table))
            if path.suffix == ".parquet" or ".log." in path.name:
                yield name


@pytest.mark.parametrize("case", one_in(5, G_CASES))
def test_every_file_says_that_its_columns_go_where_they_are_read(case: str) -> None:
    state = golden(case)
    context = HudiTable.open(state.storage.table_path).splits()[0].context
    kinds = set()
    for path in data_files(case):
        stored = _read_stored_schemas(state.storage, path)
        actual = read_file_columns(state, path)
        for part, columns in zip(actual, stored, strict=True):
            kinds.add(part.offset is None)
            from_files = pa.schema([field for field in context.schema if field.name not in context.path_columns])
            evolution = plan_file_evolution(
                columns.arrow, from_files, part.instant_time, context, path, stored_as=StoredAs.PARQUET
            )
            top = [column for column in part.columns if column.column is not None and "." not in column.column]
            assert [item.column for item in top] == context.schema.names
            sources = {item.column: item.file_column for item in top if item.outcome is not Outcome.FROM_PATH}
            assert sources == {column.field.name: column.source for column in evolution.columns}
    assert kinds == {True, False}


def fates(case: str, pattern: str, as_of: int | None = None) -> list[dict[str | None, str]]:
    """What happens to the table's own columns in each part of the first file whose name matches."""
    state = golden(case)
    path = next(path for path in data_files(case) if re.search(pattern, path))
    instant = state.instant if as_of is None else state.timeline.commits()[as_of].requested_time
    actual = read_file_columns(state.as_of(instant), path)
    return [
        {
            column.column or f"({column.file_column})": str(column)
            for column in part.columns
            if column.column not in META_FIELDS
        }
        for part in actual
    ]


FIRST_BASE_OF_MIXED = r"_20261121142522812\.parquet"


def test_a_renamed_promoted_dropped_and_added_again_column() -> None:
    assert fates("g_sor_mixed_0150", FIRST_BASE_OF_MIXED) == [
        {
            "id": "as is",
            "ts": "as is",
            "b": "null: same name, but another column (dropped and added again)",
            "aa": "renamed, cast int to long",
            "g": "renamed, cast float to double",
            "s": "as is",
            "s.x": "as is",
            "s.y": "as is",
            "part": "as is",
            "(b)": "not read: dropped",
        }
    ]


def test_the_columns_of_a_file_as_of_an_instant() -> None:
    # The first of the ALTERs is the third commit.
    (columns,) = fates("g_sor_mixed_0150", FIRST_BASE_OF_MIXED, as_of=2)
    assert columns.keys() == {"id", "ts", "aa", "b", "f", "s", "s.x", "s.y", "part"}
    assert {fate for name, fate in columns.items() if name != "aa"} == {"as is"}
    assert columns["aa"] == "renamed"


def test_the_columns_of_the_blocks_of_a_log_file() -> None:
    before, after = (
        fates("g_sor_mixed_0150", rf"_{base}\.log\.1") for base in ("20261121142522812", "20261121142541112")
    )
    assert [(block["g"], block["aa"]) for block in before] == [
        ("renamed, cast float to double", "renamed, cast int to long")
    ]
    assert [(block["g"], block["aa"]) for block in after] == [("as is", "as is")]


def test_fields_inside_columns() -> None:
    (columns,) = fates("g_logs_nested_0150", r"\.parquet")
    assert columns == {
        "id": "as is",
        "ts": "as is",
        "s": "changed inside",
        "s.a": "cast int to long",
        "s.n": "changed inside",
        "s.n.x": "as is",
        "s.n.z": "null: added later",
        "s.n.yy": "renamed",
        "s.c": "null: added later",
        "(s.b)": "not read: dropped",
        "ar": "as is",
        "ar.element": "as is",
        "ar.element.k": "as is",
        "ar.element.v": "as is",
        "m": "as is",
        "m.key": "as is",
        "m.value": "as is",
        "m.value.k": "as is",
        "m.value.v": "as is",
        "part": "as is",
    }


def test_columns_by_name() -> None:
    (columns,) = fates("g_drop_column_write_0150", r"\.parquet")
    assert columns["(qty)"] == "not read: not in the query"
    (columns,) = fates("g_add_column_120", r"_20261121140607652\.parquet")
    assert columns["extra"] == "null: not in the file"
    assert columns["part"] == "from the partition path"
    (columns,) = fates("g_widen_0150", r"\.parquet")
    assert (columns["i_l"], columns["arr.element"]) == ("cast int to long", "cast int to long")


def test_a_parquet_block_has_the_columns_of_its_footer() -> None:
    blocks = fates("g_sor_type_int_parquet_120", r"\.log\.1")
    assert [block["c0"] for block in blocks] == ["cast int to long"]


def test_a_path_may_begin_with_the_table() -> None:
    state = golden("g_add_column_120")
    path = next(data_files("g_add_column_120"))
    relative, absolute = (read_file_columns(state, name) for name in (path, f"{state.storage.table_path}/{path}"))
    assert relative == absolute


def test_a_column_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path, fields=(("id", "string"), ("ts", "long"), ("value", "string"))).create()
    base = writer.base_file(at(1), [{"id": "k", "ts": 1, "value": "v"}])
    writer.commit(at(1))
    replace(writer, fields=(("id", "string"), ("ts", "long"), ("value", "boolean"))).commit(at(2))
    (part,) = read_file_columns(state_of(tmp_path).as_of(at(2)), base.name)
    assert str(part.columns[-1]) == "refused: string cannot be read as bool"
    assert (part.columns[-1].column, part.columns[-1].file_column) == ("value", "value")


@pytest.mark.parametrize(
    "path",
    [
        "hoodie.properties",
        "no-such-file-0_0-1-1_20260101000000000.parquet",
        "../x-0_0-1-1_20260101000000000.parquet",
        "/x-0_0-1-1_20260101000000000.parquet",
        "",
    ],
)
def test_other_paths_are_refused(path: str) -> None:
    state = golden("g_add_column_120")
    with pytest.raises(QueryError, match="expected a base file or log file"):
        read_file_columns(state, path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.commit(at(1))
    base = tmp_path / "f1-0_0-1-1_20260101000000100.parquet"
    base.write_bytes(b"PAR1, or so it says")
    log = writer.log_file(at(1), [b"no block"])
    with pytest.raises(CorruptBaseFileError, match="readable Parquet"):
        read_file_columns(state_of(tmp_path).as_of(at(1)), base.name)
    with pytest.raises(CorruptLogFileError, match="#HUDI#"):
        read_file_columns(state_of(tmp_path).as_of(at(1)), log.name)


def test_a_damaged_schema_of_a_commit_is_named(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path, version=6).create()
    for number, text in ((1, "not JSON"), (2, '{"type": "record", "name": "r", "fields": []}')):
        document = json.dumps({"extraMetadata": {"schema": text}})
        (writer.timeline_folder / f"{at(number)}.deltacommit").write_text(document)
    for read in (read_schema_history, propose_schema_history):
        with pytest.raises(CorruptTableError, match=at(1)):
            read(state_of(tmp_path))


def test_microseconds_that_are_milliseconds_are_told_from_others() -> None:
    stored, wanted = pa.schema([("t", pa.timestamp("us", "UTC"))]), pa.schema([("t", pa.timestamp("ms", "UTC"))])
    words = "milliseconds, labelled as microseconds"
    refused = "refused: timestamp[us, tz=UTC] cannot be read as timestamp[ms, tz=UTC]"
    ids = internal_from_arrow(stored)
    for file_ids, query_ids, stored_as, expected in (
        (None, None, StoredAs.AVRO, words),
        (None, None, StoredAs.PARQUET, words),
        (None, ids, StoredAs.PARQUET, words),
        (None, ids, StoredAs.AVRO, refused),
        (ids, ids, StoredAs.AVRO, refused),
        (None, None, StoredAs.LANCE, "cast timestamp to timestamp_millis"),
    ):
        actual = map_columns(
            stored, wanted, file_ids=file_ids, query_ids=query_ids, path_columns=(), stored_as=stored_as
        )
        assert list(map(str, actual)) == [expected]


@pytest.mark.parametrize("has_ids", [False, True])
def test_the_names_of_a_wide_file_are_taken_once_for_all_columns(
    has_ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0

    class Names(evolve._Names):
        def __init__(self, names: Iterable[str]) -> None:
            nonlocal taken
            listed = list(names)
            taken += len(listed)
            super().__init__(listed)

    monkeypatch.setattr(evolve, "_Names", Names)
    monkeypatch.setattr(evolve, "_PLANS", BoundedCache(0))
    monkeypatch.setattr(file_columns, "_MAPPINGS_BY_NAME", BoundedCache(0))
    struct = pa.struct([(f"x{number}", pa.int32()) for number in range(100)])
    stored = pa.schema({"s": struct, **{f"c{number}": pa.int32() for number in range(100)}})
    ids = internal_from_arrow(stored) if has_ids else None
    actual = map_columns(stored, stored, file_ids=ids, query_ids=ids, path_columns=(), stored_as=StoredAs.PARQUET)
    assert len(actual) == 201
    assert {item.outcome for item in actual} == {Outcome.READ}
    # Of the columns, of the struct for the conversion and for its fields; those of the query too where it has ids.
    assert taken <= 4 * 201


def test_plans_of_files_are_no_plans_of_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = BoundedCache(256)
    monkeypatch.setattr(evolve, "_PLANS", plans)
    monkeypatch.setattr(file_columns, "_MAPPINGS_BY_NAME", BoundedCache(0))
    stored = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    map_columns(stored, stored, file_ids=None, query_ids=None, path_columns=(), stored_as=StoredAs.PARQUET)
    assert not plans._entries


def test_the_field_that_cannot_be_read_is_named() -> None:
    stored = pa.schema([("s", pa.struct([("x", pa.string())])), ("l", pa.list_(pa.string())), ("z", pa.int32())])
    expected = pa.schema(
        [("s", pa.struct([("x", pa.bool_())])), ("l", pa.list_(pa.bool_())), ("z", pa.list_(pa.int32()))]
    )
    actual = map_columns(stored, expected, file_ids=None, query_ids=None, path_columns=(), stored_as=StoredAs.PARQUET)
    assert [(item.column, item.file_column, str(item)) for item in actual] == [
        ("s.x", "s.x", "refused: string cannot be read as bool"),
        ("l.element", "l.element", "refused: string cannot be read as bool"),
        ("z", "z", "refused: int32 cannot be read as list<item: int32>"),
    ]
