"""The differences between two instants, against a plain comparison of two snapshots, row by row."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiTable, InstantNotReadableError, QueryError, tools
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.tools import TableDifference
from hudi_bridge.tools.differences import states
from hudi_bridge.tools.differences.states import StateDifferences
from tests.support.golden_cases import golden_history, golden_table
from tests.support.strength import examples, one_in
from tests.support.table_writer import Row, TableWriter, at

EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
PARTITIONED = (("id", "string"), ("ts", "long"), ("value", "string"), ("part", "string"))
KEYS = "abcdef"

Told = Counter[tuple[Any, ...]]


def row(key: str, value: str | None, ts: int = 1, **others: Any) -> Row:
    return {"id": key, "ts": ts, "value": value, **others}


def log(table: TableWriter, number: int, rows: Sequence[Row] = (), deletes: Sequence[tuple[str, int]] = ()) -> None:
    blocks = [table.data_block(at(number), rows)] if rows else []
    blocks += [table.delete_block(at(number), deletes)] if deletes else []
    path = table.log_file(at(number), blocks, base_instant=at(1), number=number)
    table.commit(at(number), wrote=[path])


def told(difference: TableDifference) -> Told:
    """The differences as values: the operation, the key, what has changed, and the images."""
    rows = difference.to_table()
    assert rows.schema == difference.schema
    names = ("op", "key", "changed", "before", "after")
    return Counter(tuple(repr(item[name]) for name in names) for item in rows.to_pylist())


def expected(table: HudiTable, before: str, after: str) -> Told:
    """The same by a plain comparison of snapshots that have the same columns, and each key once."""
    schema = table.snapshot(before).schema
    assert schema == table.snapshot(after).schema
    names = [name for name in schema.names if name not in META_COLUMNS]
    both = []
    for instant in (before, after):
        rows = table.snapshot(instant).to_table().to_pylist()
        both.append({item["_hoodie_record_key"]: {name: item[name] for name in names} for item in rows})
        assert len(both[-1]) == len(rows)
    actual: Told = Counter()
    for key in both[0].keys() | both[1].keys():
        one, other = both[0].get(key), both[1].get(key)
        changed = None
        operation = "insert" if one is None else "delete"
        if one is not None and other is not None:
            changed = [name for name in names if repr(one[name]) != repr(other[name])]
            operation = "update"
        if changed != []:
            actual[tuple(map(repr, (operation, key, changed, one, other)))] += 1
    return actual


def short(difference: TableDifference) -> list[tuple[Any, ...]]:
    """The operation, the key, and the values before and after, sorted by key."""
    rows = difference.to_table().to_pylist()
    images = [tuple(item[name] and item[name]["value"] for name in ("before", "after")) for item in rows]
    return sorted((one["op"], one["key"], *values) for one, values in zip(rows, images, strict=True))


@pytest.fixture(params=[6, 9])
def writer(tmp_path: Path, request: pytest.FixtureRequest) -> TableWriter:
    table = TableWriter(folder=tmp_path / "t", version=request.param, options=EVENT_TIME).create()
    base = table.base_file(at(1), [row("a", "a1"), row("b", "b1"), row("c", "c1")])
    table.commit(at(1), action="commit", wrote=[base])
    return table


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["log", "log", "delete", "compact", "cluster", "overwrite"]),
        st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from("xyz"), st.integers(1, 4)), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=5,
)


def write_steps(table: TableWriter, steps: Sequence[tuple[str, Sequence[tuple[str, str, int]]]]) -> list[str]:
    """Writes the steps of a random table of one file group at a time; returns the instants."""
    table.commit(at(1), action="commit", wrote=[table.base_file(at(1), [row(key, "x") for key in "abcd"])])
    base, group = at(1), 1
    for number, (step, records) in enumerate(steps, start=2):
        file_id = f"f{group}-0"
        if step in ("log", "delete"):
            rows = [row(key, value, ts) for key, value, ts in records]
            deletes = [(key, ts) for key, _, ts in records]
            block = table.data_block if step == "log" else table.delete_block
            content: Any = rows if step == "log" else deletes
            path = table.log_file(
                at(number), [block(at(number), content)], base_instant=base, file_id=file_id, number=number
            )
            table.commit(at(number), wrote=[path])
            continue
        now = [
            {name: item[name] for name in ("id", "ts", "value", "_hoodie_commit_time")}
            for item in table.open().snapshot().to_table().to_pylist()
        ]
        base = at(number)
        if step == "compact":
            table.pending_compaction(at(number), [("", file_id)])
            path = table.base_file(at(number), now, file_id=file_id)
            table.commit(at(number), action="commit", wrote=[path], operation="COMPACT")
            continue
        group += 1
        written = {key: row(key, value, ts) for key, value, ts in records}
        new = now[::-1] if step == "cluster" else list(written.values())
        path = table.base_file(at(number), new, file_id=f"f{group}-0")
        operation = "CLUSTER" if step == "cluster" else "INSERT_OVERWRITE"
        table.commit(at(number), action="replacecommit", wrote=[path], replaced={"": [file_id]}, operation=operation)
    return [at(number) for number in range(1, len(steps) + 2)]


@pytest.mark.parametrize("version", one_in(2, [6, 9]))
@given(steps=STEPS, on_disk=st.booleans())
@settings(max_examples=examples(6), deadline=None)
def test_random_tables_differ_as_their_snapshots_do(
    version: int, steps: Sequence[tuple[str, Sequence[tuple[str, str, int]]]], on_disk: bool
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if on_disk:
            # Every file group is compared in parts, and every unmatched row goes to a file.
            patch.setattr(states, "_MAX_MEMORY", 2)
            patch.setattr(states, "_MAX_PARTS", 2)
            patch.setattr(states, "_PARTS", 3)
        writer = TableWriter(folder=Path(folder) / "t", version=version, options=EVENT_TIME).create()
        instants = write_steps(writer, steps)
        table = writer.open()
        for before, after in [*pairwise(instants), (instants[0], instants[-1]), (instants[-1], instants[0])]:
            assert told(tools.diff(table, before, after)) == expected(table, before, after)


@pytest.mark.parametrize("name", one_in(2, ["mor_v6", "mor_v9_global"]))
def test_histories_of_hudi_differ_as_their_snapshots_do(name: str) -> None:
    table = HudiTable.open(str(golden_history(name) / "table"))
    instants = [commit.requested_time for commit in table.timeline.commits()]
    assert any(expected(table, before, after) for before, after in pairwise(instants))
    for before, after in [*pairwise(instants), (instants[0], instants[-1]), (instants[-1], instants[0])]:
        assert told(tools.diff(table, before, after)) == expected(table, before, after)


def test_log_files_of_which_a_state_sees_no_block_are_compared() -> None:
    table = HudiTable.open(str(golden_table("j_ch_pending_exec_120")))
    instants = [commit.requested_time for commit in table.timeline.commits()]
    after_replan = instants.index("20261122015712797")
    for before, after in pairwise(instants[after_replan - 1 :]):
        assert told(tools.diff(table, before, after)) == expected(table, before, after)


def test_file_groups_without_changes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableWriter(folder=tmp_path / "t", version=6, options=EVENT_TIME).create()
    files = [table.base_file(at(1), [row(str(number), "v")], file_id=f"f{number}-0") for number in range(4)]
    table.commit(at(1), action="commit", wrote=files)
    for number in (2, 3):
        paths = []
        for group in (0, 1) if number == 2 else (1,):
            block = table.data_block(at(number), [row(str(group), f"v{number}", number)], file_id=f"f{group}-0")
            paths.append(table.log_file(at(number), [block], base_instant=at(1), file_id=f"f{group}-0", number=number))
        table.commit(at(number), wrote=paths)
    read: list[str] = []
    of_slice = StateDifferences._reader

    def reading(self: StateDifferences, piece: Any, request: Any) -> Any:
        read.append(piece.file_id)
        return of_slice(self, piece, request)

    monkeypatch.setattr(StateDifferences, "_reader", reading)
    difference = tools.diff(table.open(), at(2))
    assert difference.file_groups == (1, 3)
    assert short(difference) == [("update", "1", "v2", "v3")]
    assert set(read) == {"f1-0"}


def test_nothing_differs_that_is_written_again_unchanged(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a1", 1), row("b", "late", 0)])
    difference = tools.diff(writer.open(), at(1))
    assert difference.to_table().num_rows == 0
    assert difference.summary().num_rows == 0


def test_the_way_back_has_the_columns_of_the_later_instant(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a2", 2), row("d", "d2", 2)], [("b", 2)])
    table = writer.open()
    assert short(tools.diff(table, at(1), at(2))) == [
        ("delete", "b", "b1", None),
        ("insert", "d", None, "d2"),
        ("update", "a", "a1", "a2"),
    ]
    back = tools.diff(table, at(2), at(1))
    assert back.instants == (at(2), at(1))
    assert short(back) == [("delete", "d", "d2", None), ("insert", "b", None, "b1"), ("update", "a", "a2", "a1")]
    assert short(tools.diff(table, at(2), at(2))) == []


def test_a_record_that_moves_to_another_partition_is_told_once(tmp_path: Path) -> None:
    table = TableWriter(
        folder=tmp_path / "t", fields=PARTITIONED, partition_fields=("part",), options=EVENT_TIME
    ).create()
    base = table.base_file(at(1), [row("a", "a1", part="p"), row("b", "b1", part="p")], partition="p")
    table.commit(at(1), action="commit", wrote=[base])
    gone = table.log_file(at(2), [table.delete_block(at(2), [("a", 2)], partition="p")], partition="p")
    new = table.base_file(at(2), [row("a", "a1", part="q"), row("b", "b2", part="q")], partition="q", file_id="f2-0")
    table.commit(at(2), wrote=[gone, new])
    difference = tools.diff(table.open(), at(1))
    rows = sorted(difference.to_table().to_pylist(), key=lambda one: str(one["op"]))
    told_of = [(item["op"], item["key"], item["partition"], item["moved_from"], item["changed"]) for item in rows]
    # Record b is in both partitions now.
    assert told_of == [("insert", "b", "q", None, None), ("update", "a", "q", "p", ["part"])]
    assert difference.summary().to_pylist() == [
        {"partition": "q", "inserted": 1, "updated": 1, "deleted": 0, "moved_in": 1}
    ]
    of_values = tools.diff(table.open(), at(1), columns=["value"], keys=["a"]).to_table().to_pylist()
    assert [(of_value["moved_from"], of_value["changed"]) for of_value in of_values] == [("p", [])]


def test_the_order_of_rows_with_one_key_does_not_matter(writer: TableWriter) -> None:
    values = ["x1", "x2", "x3", None]
    rows = [row("x", value) for value in values]
    writer.commit(at(2), action="commit", wrote=[writer.base_file(at(2), rows, file_id="f2-0")])
    again = writer.base_file(at(3), [*rows[::-1][:3], row("x", "x4")], file_id="f2-0")
    writer.commit(at(3), action="commit", wrote=[again])
    moved = writer.base_file(at(4), [row("x", "x4"), *rows[1:]], file_id="f3-0")
    writer.commit(at(4), action="replacecommit", wrote=[moved], replaced={"": ["f2-0"]})
    table = writer.open()
    assert short(tools.diff(table, at(2), at(3))) == [("update", "x", "x1", "x4")]
    assert short(tools.diff(table, at(3), at(4))) == []


def test_columns_keys_and_conditions_choose(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a2", 2), row("b", "b1", 2), row("d", "d2", 2)], [("c", 2)])
    table = writer.open()
    of_values = tools.diff(table, at(1), columns=["value"])
    assert of_values.columns == ("value",)
    assert short(of_values) == [("delete", "c", "c1", None), ("insert", "d", None, "d2"), ("update", "a", "a1", "a2")]
    assert of_values.schema.field("before").type == pa.struct([("value", pa.string())])
    # Either side may meet the condition.
    for condition, keys in (
        (pc.field("value") == "a1", {"a"}),
        (pc.field("value") == "a2", {"a"}),
        (pc.field("ts") == 1, {"a", "b", "c"}),
        (pc.field("_hoodie_commit_time") == at(2), {"a", "b", "d"}),
    ):
        actual = tools.diff(table, at(1), where=condition).to_table()
        assert set(actual["key"].to_pylist()) == keys
        assert actual["before"].type == tools.diff(table, at(1)).schema.field("before").type
    assert {item[1] for item in short(tools.diff(table, at(1), keys=["a", "d", "none"]))} == {"a", "d"}
    assert short(tools.diff(table, at(1), columns=["value"], keys=["b"])) == []
    with pytest.raises(QueryError, match="no such"):
        tools.diff(table, at(1), columns=["no such"])
    with pytest.raises(QueryError, match="filter"):
        tools.diff(table, at(1), where=pc.field("none") == 1)


@pytest.mark.parametrize("keys", [None, ["b", "x"]])
def test_tables_without_meta_columns_are_compared_by_their_key_fields(tmp_path: Path, keys: list[str] | None) -> None:
    options = EVENT_TIME | {"hoodie.populate.meta.fields": "false"}
    table = TableWriter(folder=tmp_path / "t", options=options).create()
    for number, values in ((1, ("a1", "b1", "c1")), (2, ("a1", "b2"))):
        path = table.base_file(at(number), [row(value[0], value) for value in values])
        table.commit(at(number), action="commit", wrote=[path])
    difference = tools.diff(table.open(), at(1), columns=["value"], keys=keys)
    assert short(difference) == [("delete", "c", "c1", None), ("update", "b", "b1", "b2")][keys is not None :]


def test_before_the_first_commit_there_is_nothing(writer: TableWriter) -> None:
    table = writer.open()
    assert {item[:2] for item in short(tools.diff(table, "2020-01-01"))} == {("insert", key) for key in "abc"}
    assert {item[:2] for item in short(tools.diff(table, at(1), "2020-01-01"))} == {("delete", key) for key in "abc"}
    without_commit = HudiTable.open(str(golden_table("i_only_inflight_120")))
    assert list(tools.diff(without_commit, "2026-01-01").batches()) == []
    empty = HudiTable.open(str(golden_table("i_empty_120")))
    assert tools.diff(empty, "2020-01-01").to_table().num_rows == 0


def test_a_renamed_column_is_the_same_column() -> None:
    table = HudiTable.open(str(golden_table("n_alter_0150")))
    instants = [commit.requested_time for commit in table.timeline.commits()]
    schemas = [table.snapshot(instant).schema for instant in instants]
    renamed = [
        number
        for number, (one, other) in enumerate(pairwise(schemas))
        if not one.equals(other) and told(tools.diff(table, instants[number], instants[number + 1])) == Counter()
    ]
    assert renamed
    for number in renamed:
        one, other = (table.snapshot(instants[location]).to_table() for location in (number, number + 1))
        assert one.num_rows == other.num_rows


def test_instants_whose_files_are_gone_are_refused() -> None:
    table = HudiTable.open(str(golden_history("mor_v6_cleaned") / "table"))
    first = table.timeline.commits()[0].requested_time
    with pytest.raises(InstantNotReadableError, match="cleaned"):
        tools.diff(table, "2020-01-01", first)
    with pytest.raises(QueryError, match="a: found 'yesterday'"):
        tools.diff(table, "yesterday")


def test_any_library_reads_the_differences_as_arrow(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a2", 2)])
    difference = tools.diff(writer.open(), at(1))
    assert pa.table(difference).equals(difference.to_table())
    assert at(2) in repr(difference)


def test_earliest_is_the_first_instant_that_can_be_read() -> None:
    for case in ("a_story_v9_120", "d_cleaned_120"):
        table = HudiTable.open(str(golden_table(case)))
        first = table.earliest_readable_instant or table.timeline.commits()[0].requested_time
        for earliest in ("earliest", "EARLIEST"):
            assert repr(tools.diff(table, earliest)) == repr(tools.diff(table, first))
        assert tools.diff(table, first, "earliest").to_table().num_rows == 0
