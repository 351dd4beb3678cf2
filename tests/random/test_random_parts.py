"""What needs no Spark: draws are sound, conditions mean the same in all languages, differences are seen."""

import dataclasses
import datetime as dt
import json
import math
from collections import Counter
from decimal import Decimal
from itertools import starmap
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import RealtimeFileSplit
from hudi_bridge.merge.rules import UNAVAILABLE_VALUE
from tests.golden.generate.questions import BEGIN
from tests.golden.generate.timeline import Instant, timeline_folder
from tests.random import row_steps, table_steps
from tests.random.asking import Questions, later
from tests.random.checking import (
    ARROW,
    DIFFERENT,
    EQUAL,
    ERROR,
    Case,
    Outcome,
    check,
    filtered,
    parsed_images,
    rows_of,
    type_differences,
)
from tests.random.conditions import condition, leaves, literal, projection, values_of
from tests.random.draw import MYSQL, POSTGRES, Draw, read_draw
from tests.random.drawing import RELEASES, draw
from tests.random.kinds import COLUMN_TYPES, ORDERING_TYPES, arrow_type, ordering_value, sql_literal, value
from tests.random.known import KNOWN
from tests.random.known_changes import RecordStates, differs_as_changes_of_0x_do, tells_other_versions
from tests.random.reasons import lacking_keys, with_reasons
from tests.random.rows import RowSource
from tests.random.run import Summary
from tests.random.writing import FUNCTIONS
from tests.support.compare import differences
from tests.support.golden_cases import golden_case
from tests.support.strength import one_in

SEEDS = range(120)
STEP_MODULES = (row_steps, table_steps)
DRAWN_AT_LEAST = (
    "merging AWSDmsAvroPayload",
    "merging FirstValueAvroPayload",
    "merging debezium.MySqlDebeziumAvroPayload",
    "merging debezium.PostgresDebeziumAvroPayload",
    "metadata secondary index",
    "metadata expression index",
    "metadata bloom filters",
    "partition three",
    "index CONSISTENT",
    "concurrency NON_BLOCKING_CONCURRENCY_CONTROL",
    "service log compaction",
    "drops_partition_columns",
)


def table_with(**facts: Any) -> Draw:
    return dataclasses.replace(draw("1.2.0", 1), **facts)


@pytest.mark.parametrize("release", RELEASES)
def test_a_seed_draws_the_same_table_again_and_from_json(release: str) -> None:
    for seed in SEEDS:
        table = draw(release, seed)
        assert draw(release, seed) == table
        assert read_draw(json.loads(json.dumps(table.as_json()))) == table


@pytest.mark.parametrize("release", RELEASES)
def test_tables_are_sound(release: str) -> None:
    for seed in SEEDS:
        table = draw(release, seed)
        names = [name for name, _ in table.columns]
        assert len(set(names)) == len(names)
        assert {*table.key_fields, *table.partition_fields, *(name for name, _ in table.ordering)} <= set(names)
        assert {step.name for step in table.steps} <= set(FUNCTIONS)
        assert [step.number for step in table.steps] == list(range(len(table.steps)))
        assert {step.release for step in table.steps} == {table.first_release, table.release}
        assert "None" not in table.options.values()


def test_all_is_drawn() -> None:
    features = Counter(
        feature for release in RELEASES for seed in range(400) for feature in draw(release, seed).features()
    )
    assert {feature: features[feature] for feature in DRAWN_AT_LEAST if features[feature] < 10} == {}
    assert sum(count for feature, count in features.items() if feature.startswith("1.2.0 from 0.15.0")) >= 10


def test_every_step_can_be_drawn() -> None:
    names = {step.name for release in RELEASES for seed in range(400) for step in draw(release, seed).steps}
    assert names == set(FUNCTIONS)


def test_a_step_left_out_leaves_the_others_as_they_are() -> None:
    table = draw("1.2.0", 3)
    assert [step.number for step in table.with_steps([0, 2]).steps] == [0, 2]
    assert table.with_steps([0, 2]).steps[1] is table.steps[2]


@pytest.mark.parametrize("kind", [*COLUMN_TYPES, *ORDERING_TYPES])
def test_values_are_of_their_type(kind: str) -> None:
    chance = Random(kind)
    values = pa.array([value(chance, arrow_type(kind)) for _ in range(300)], arrow_type(kind))
    assert 0 < values.null_count < 100
    if not pa.types.is_nested(values.type):
        assert len(values.unique()) > 2


@pytest.mark.parametrize("kind", ORDERING_TYPES)
def test_ordering_values_order_as_their_levels(kind: str) -> None:
    values = [ordering_value(kind, level) for level in range(1, 200, 7)]
    assert sorted(values) == values
    assert pa.array(values, arrow_type(kind)).null_count == 0
    assert ordering_value(kind, None) is None


@pytest.mark.parametrize("release", RELEASES)
def test_rows_have_the_columns_of_the_table(release: str) -> None:
    for seed in SEEDS:
        rows = RowSource(draw(release, seed))
        batch = rows.batch(Random(seed), rows.new_keys(12), deleted=0.5)
        for name, kind in rows.columns:
            assert len(pa.array([row[name] for row in batch], arrow_type(kind))) == 12
        keys = {tuple(row[name] for name in rows.table.key_fields) for row in batch}
        assert len(keys) == 12


def test_literals_of_sql() -> None:
    assert [sql_literal(item) for item in (None, True, "it's \\", 1.5, dt.date(2024, 2, 3), Decimal("1.50"), 7)] == [
        *("null", "true", "'it\\'s \\\\'", "'1.5'", "date'2024-02-03'", "1.50", "7")
    ]
    assert sql_literal(math.inf) == "'Infinity'"
    assert sql_literal(math.nan) == "'NaN'"
    assert sql_literal(dt.datetime(2024, 2, 3, 4, 5)) == "timestamp'2024-02-03 04:05:00'"


def random_rows(seed: int) -> pa.Table:
    chance = Random(seed)
    columns = {
        kind: pa.array([value(chance, arrow_type(kind)) for _ in range(40)], arrow_type(kind)) for kind in COLUMN_TYPES
    }
    return pa.table({f"c{index}": column for index, column in enumerate(columns.values())})


@pytest.mark.parametrize("seed", one_in(15, range(60)))
def test_conditions_mean_the_same_in_arrow_and_duckdb(seed: int) -> None:
    rows, chance = random_rows(seed), Random(seed)
    table = table_with(key_fields=["c0"], partition_fields=["c1"], partition="text")
    names = {"pa": pa, "pc": pc, "dt": dt, "Decimal": Decimal}
    for _ in range(8):
        chosen = condition(chance, rows, table)
        if chosen is not None:
            expected = rows.filter(eval(chosen.expression, names))
            assert differences(expected, filtered(rows, chosen.duckdb)) == [], chosen


def test_values_that_languages_spell_otherwise_have_no_literal() -> None:
    assert literal("tab\t", pa.string()) is None
    assert literal(math.nan, pa.float64()) is None
    assert literal(-(2**63), pa.int64()) is None


def test_values_that_hudi_misread_are_shown_and_not_asked_for() -> None:
    first, misread = pa.array([1, 2_932_897], pa.int32()).cast(pa.date32()), b"\xa0"
    rows = pa.table({"a": first, "b": pa.array([b"b", misread]).view(pa.string())})
    assert values_of(rows, ("a",)) == [dt.date(1970, 1, 2)]
    assert values_of(rows, ("b",)) == ["b"]
    lines = differences(rows, rows.slice(0, 1))
    assert lines[0] == "expected 2 rows, found 1"
    assert "10000-01-01" in lines[1]


def test_projections_are_of_columns_and_fields() -> None:
    rows = random_rows(1)
    paths = {path for path, _ in leaves(rows.schema)} | {(name,) for name in rows.column_names}
    drawn = {path for seed in range(50) for path in projection(Random(seed), rows)}
    assert drawn <= paths
    assert {len(path) for path in drawn} == {1, 2}


def test_a_time_later_than_an_instant() -> None:
    assert later("20261126235959999") == "20261127000000000"
    assert later("20261126235959") == "20261126235959001"


def test_questions_are_about_what_has_completed() -> None:
    done = [
        Instant(
            requested=f"2026112623595900{n}", completed=f"2026112623595901{n}", action="deltacommit", state="completed"
        )
        for n in range(4)
    ]
    pending = Instant(requested="20261126235959009", completed=None, action="compaction", state="requested")
    table = table_with(has_meta_fields=True, cdc="op_key_only")
    questions = list(Questions(table, [*done, pending], 9, []).about_instants())
    kinds = Counter(question.kind for question in questions)
    assert {*kinds} == {"snapshot", "read_optimized", "time_travel", "incremental", "cdc"}
    assert kinds["incremental"] == kinds["cdc"]
    assert not any(pending.requested in question.options.values() for question in questions)


def a_case(folder: Path, golden: str, **facts: Any) -> Case:
    """A golden table as a random one."""
    document = json.loads((golden_case(golden) / "case.json").read_text())
    kinds = ("snapshot", "read_optimized", "time_travel", "incremental", "snapshot_filtered")
    document["queries"] = [query for query in document["queries"] if query["kind"] in kinds and query["expected"]]
    for name in ("table", "expected"):
        (folder / name).symlink_to(golden_case(golden) / name)
    plain: dict[str, Any] = {
        "key_fields": ["id"],
        "partition_fields": ["part"],
        "has_metadata": True,
        "begins_in": None,
    }
    return Case(folder, document, table_with(**plain, **facts))


def test_a_table_that_is_read_as_hudi_reads_it_has_no_faults(tmp_path: Path) -> None:
    outcomes = check(a_case(tmp_path, "a_story_v9_120"))
    assert [outcome for outcome in outcomes if outcome.is_fault] == []
    ways = Counter(outcome.way for outcome in outcomes if outcome.status == EQUAL)
    assert {"arrow", "arrow, no indexes", "duckdb", "pickled splits"} <= set(ways)
    assert {outcome.kind for outcome in outcomes} >= {
        "snapshot",
        "read_optimized",
        "time_travel",
        "incremental",
        "look-up",
    }


def test_other_rows_and_errors_are_faults(tmp_path: Path) -> None:
    case = a_case(tmp_path, "a_story_v9_120")
    query = case.document["queries"][0]
    rows = pq.read_table(tmp_path / query["expected"])
    (tmp_path / "expected").unlink()
    (tmp_path / "expected").mkdir()
    case.document["queries"][:] = [query, {**query, "kind": "time_travel", "options": {"as.of.instant": "no time"}}]
    pq.write_table(rows.slice(1), tmp_path / query["expected"])
    statuses = {
        (outcome.kind, outcome.way): outcome.status for outcome in with_reasons(case, check(case)) if outcome.is_fault
    }
    assert statuses["snapshot", "arrow"] == DIFFERENT
    assert statuses["time_travel", "arrow"] == ERROR


@pytest.mark.long
def test_a_filter_that_contradicts_hudis_snapshot_is_known(tmp_path: Path) -> None:
    case = a_case(tmp_path, "a_story_v9_120")
    snapshot = case.document["queries"][0]
    rows = pq.read_table(tmp_path / snapshot["expected"])
    (tmp_path / "expected").unlink()
    (tmp_path / "expected").mkdir()
    options = {"where": "qty > 0", "expression": "pc.field('qty') > 0", "duckdb": "qty > 0"}
    wrong = {"kind": "snapshot_filtered", "options": options, "expected": "expected/wrong.parquet"}
    case.document["queries"][:] = [snapshot, wrong]
    pq.write_table(rows, tmp_path / snapshot["expected"])
    pq.write_table(rows.filter(pc.field("qty") > 0).slice(1), tmp_path / "expected" / "wrong.parquet")
    outcomes = [outcome for outcome in with_reasons(case, check(case)) if outcome.status == DIFFERENT]
    assert {outcome.reason for outcome in outcomes} == {
        next(item.reason for item in KNOWN if "its own snapshot" in item.reason)
    }
    assert len(outcomes) == 3


@pytest.mark.parametrize(
    ("name", "count"), one_in(2, starmap(pytest.param, [("k_min_nbcc_pending_120", 3), ("k_nbcc_pending_120", 1)]))
)
def test_what_a_slow_writer_wrote_beside_a_pending_compaction_is_known(name: str, count: int, tmp_path: Path) -> None:
    case = a_case(tmp_path, name, table_version=9)
    outcomes = [outcome for outcome in with_reasons(case, check(case)) if outcome.status == DIFFERENT]
    assert [outcome.reason for outcome in outcomes] == [item.reason for item in KNOWN if "slow" in item.reason] * count
    # Without a slow writer the same differences are faults.
    for entry in case.document["instants"]:
        entry["requested"] = entry["completed"] or entry["requested"]
    assert all(
        outcome.is_fault
        for outcome in with_reasons(case, [dataclasses.replace(outcome, reason=None) for outcome in outcomes])
    )


def reason_for(case: Case, kind: str, expected: pa.Table, ours: pa.Table) -> str | None:
    """Why a difference in the answers to the first question of a kind is known."""
    query = next(index for index, query in enumerate(case.document["queries"]) if query["kind"] == kind)
    outcome = Outcome(kind=kind, way=ARROW, query=query, status=DIFFERENT, tables=(expected, ours))
    return with_reasons(case, [outcome])[0].reason


def with_values(rows: pa.Table, name: str, value: object, at: "list[bool] | pa.ChunkedArray[Any]") -> pa.Table:
    """Rows with another value of a column in some of them."""
    kind = rows.schema.field(name).type
    column = pc.if_else(pa.chunked_array([at], pa.bool_()), pa.scalar(value, kind), rows[name])
    return rows.set_column(rows.column_names.index(name), name, column)


def test_null_partition_columns_are_known_beside_logs_and_where_hudi_alone_has_them(tmp_path: Path) -> None:
    case = a_case(tmp_path, "a_story_v9_120", partition="timestamp", release="1.1.1")
    splits = [split for split in case.opened().snapshot().splits() if isinstance(split, RealtimeFileSplit)]
    plain = tuple(split.file_id for split in splits if not split.log_files)
    rows = case.opened().snapshot().to_table()
    is_plain = [name.startswith(plain) for name in map(str, rows["_hoodie_file_name"].to_pylist())]
    ours = pa.concat_tables(
        [
            rows.filter(pa.array(is_plain)).slice(0, 2),
            rows.filter(pa.array([not flag for flag in is_plain])).slice(0, 2),
        ]
    )
    is_beside_logs = [False, False, True, True]
    nulls = with_values(ours, "part", None, is_beside_logs)
    assert "timestamp-based" in (reason_for(case, "snapshot", nulls, ours) or "")
    first = [position == is_beside_logs.index(True) for position in range(len(ours))]
    assert "timestamp-based" in (reason_for(case, "snapshot", with_values(ours, "part", None, first), ours) or "")
    for expected, actual in (
        (with_values(ours, "part", None, [True] * len(ours)), ours),
        (with_values(nulls, "part", "another", first), ours),
        (ours, nulls),
        (nulls, with_values(ours, "qty", 12345, first)),
        (nulls, ours.slice(1)),
    ):
        assert reason_for(case, "snapshot", expected, actual) is None


def test_rows_of_log_compactions_are_known_if_hudi_alone_has_them(tmp_path: Path) -> None:
    case = a_case(tmp_path, "d_log_compaction_120", release="1.1.1")
    plan = next(timeline_folder(Path(case.path)).glob("*.logcompaction.requested"))
    ours = case.opened().incremental("000").to_table()
    rewritten = with_values(ours.slice(0, 2), "_hoodie_commit_time", plan.name.partition(".")[0], [True, True])
    expected = pa.concat_tables([ours, rewritten])
    assert "log compaction has rewritten" in (reason_for(case, "incremental", expected, ours) or "")
    others = ours.filter(pc.not_equal(ours["_hoodie_commit_time"], pa.scalar(plan.name.partition(".")[0])))
    assert reason_for(case, "incremental", expected, pa.concat_tables([ours, others.slice(0, 1)])) is None
    assert reason_for(case, "incremental", expected, others.slice(1)) is None
    assert reason_for(case, "incremental", ours, expected) is None


def test_archived_commits_are_known_if_hudi_leaves_them_out(tmp_path: Path) -> None:
    case = a_case(tmp_path, "d_archived_v6_by120")
    instants = case.document["instants"]
    # A clean stays, although later commits have been archived.
    first = min(entry["requested"] for entry in instants if entry["action"].endswith("commit"))
    assert min(entry["requested"] for entry in instants) < first
    ours = case.opened().incremental("000").to_table()
    is_archived = pc.less(ours["_hoodie_commit_time"], pa.scalar(first))
    active, archived = ours.filter(pc.invert(is_archived)), ours.filter(is_archived)
    assert min(active.num_rows, archived.num_rows) > 1
    query = next(query for query in case.document["queries"] if query["kind"] == "incremental")
    query["options"] = {**query["options"], BEGIN: "000"}
    expected = pa.concat_tables([active, archived.slice(1)])
    assert "archived commits" in (reason_for(case, "incremental", expected, ours) or "")
    assert reason_for(case, "incremental", ours, expected) is None
    assert reason_for(case, "incremental", expected, ours.filter(is_archived)) is None
    query["options"] = {**query["options"], BEGIN: first}
    assert reason_for(case, "incremental", expected, ours) is None


@pytest.mark.parametrize("way", ["duckdb", "arrow, no indexes"])
def test_a_fault_of_one_way_is_one_although_others_are_equal(way: str, tmp_path: Path) -> None:
    case = a_case(tmp_path, "k_nbcc_pending_120", table_version=9)
    index = next(index for index, query in enumerate(case.document["queries"]) if query["kind"] == "time_travel")
    query = case.document["queries"][index]
    rows = rows_of(case.opened(), "time_travel", query["options"])
    outcome = Outcome(kind="time_travel", way=way, query=index, status=DIFFERENT, tables=(rows, rows.slice(1)))
    assert with_reasons(case, [outcome]) == [outcome]


def test_keys_that_the_doctor_names_may_have_quotes() -> None:
    named = ["'", 'q"uote', "it's", "a"]
    told = "found {} record keys that the record index lacks: {}, expected the file group of each row"
    assert lacking_keys(told.format(4, ", ".join(map(repr, named)))) == named
    assert lacking_keys(told.format(5, ", ".join(map(repr, named)))) == []


def test_types_are_compared_whatever_their_form() -> None:
    expected = pa.schema([("a", pa.list_(pa.string())), ("b", pa.int32()), ("c", pa.timestamp("us", "UTC"))])
    forms = [("a", pa.large_list(pa.large_string())), ("b", pa.int32()), ("c", pa.timestamp("ns", "Europe/Paris"))]
    assert type_differences(expected, pa.schema(forms)) == []
    others = [("a", pa.list_(pa.binary())), ("b", pa.int64()), ("c", pa.timestamp("us"))]
    assert [line.split(":")[0] for line in type_differences(expected, pa.schema(others))] == [
        f"type of {name}" for name in "abc"
    ]


def test_images_are_compared_whatever_their_json() -> None:
    one = pa.table(
        {"op": ["u"], "before": ['{"a": 1, "b": null}'], "after": [None]},
        schema=pa.schema([("op", pa.string()), ("before", pa.string()), ("after", pa.string())]),
    )
    other = one.set_column(1, "before", pa.array(['{"a":1}']))
    assert differences(parsed_images(one), parsed_images(other)) == []


def test_counts_of_a_run() -> None:
    table = table_with()
    summary = Summary()
    summary.add(
        Case(Path(), {}, table),
        [
            Outcome(kind="snapshot", way="arrow", query=0, status=EQUAL),
            Outcome(kind="snapshot", way="duckdb", query=0, status=DIFFERENT),
            Outcome(kind="cdc", way="arrow", query=1, status=DIFFERENT, reason="as documented"),
        ],
    )
    lines = list(summary.lines())
    assert lines[0].startswith("1 tables, 3 answers")
    assert "         1 FAULT snapshot, duckdb: different" in lines
    assert lines[-1] == f"tables with faults: {table.name}"


def test_late_records_are_known_in_changes_of_0x(tmp_path: Path) -> None:
    def image(commit: int, ts: int, text: str = "") -> dict[str, Any]:
        meta = {"_hoodie_commit_time": str(commit), "_hoodie_partition_path": "", "_hoodie_record_key": "a"}
        return {**meta, "ts": ts, "text": text}

    def changes(*pairs: tuple[dict[str, Any] | None, dict[str, Any]]) -> pa.Table:
        """Updates to the images, or inserts of them."""
        return pa.table(
            {
                "op": ["u" if before else "i" for before, _ in pairs],
                "ts_ms": [after["_hoodie_commit_time"] for _, after in pairs],
                "before": [before and json.dumps(before) for before, _ in pairs],
                "after": [json.dumps(after) for _, after in pairs],
            }
        )

    def are_known(expected: pa.Table, ours: pa.Table, merging: str = "spark merger") -> bool:
        facts: dict[str, Any] = {"ordering": (("ts", "int"),), "columns": (("ts", "int"), ("text", "string"))}
        case = Case(tmp_path, {"instants": []}, table_with(merging=merging, release="0.15.0", **facts))
        return differs_as_changes_of_0x_do(case, expected, ours)

    first, late, later, last = image(1, 50), image(2, 10), image(3, 20), image(4, 60)
    ours = changes((first, last))
    assert are_known(changes((first, last)), ours)
    assert are_known(changes((late, last)), ours)
    # All that are late, also after one another.
    assert are_known(changes((first, late), (late, later), (later, last)), ours)
    assert not are_known(changes((late, last)), ours, "default")
    assert not are_known(changes((image(1, 50, "other"), last)), ours)
    assert not are_known(changes((image(2, 55), last)), ours)
    assert not are_known(changes((late, image(4, 60, "other"))), ours)
    assert not are_known(changes((first, image(2, 55)), (image(2, 55), last)), ours)
    assert not are_known(changes((None, last)), ours)


def test_changes_of_other_versions_are_known() -> None:
    def image(commit: int, part: str = "p", **more: str) -> dict[str, Any]:
        meta = {"_hoodie_commit_time": str(commit), "_hoodie_commit_seqno": f"{commit}_0", "_hoodie_file_name": "f"}
        return {**meta, "_hoodie_partition_path": part, "_hoodie_record_key": "a", "part": "stored", **more}

    def changes(*rows: tuple[str, int, dict[str, Any] | None, dict[str, Any] | None]) -> pa.Table:
        sides = (
            {"before": before and json.dumps(before), "after": after and json.dumps(after)}
            for *_, before, after in rows
        )
        return pa.Table.from_pylist(
            [{"op": op, "ts_ms": str(commit), **images} for (op, commit, *_), images in zip(rows, sides, strict=True)],
            pa.schema([(name, pa.string()) for name in ("op", "ts_ms", "before", "after")]),
        )

    base, late, newer = image(1), image(2), image(3)
    versions = [{name: row[name] for name in row if name != "part"} for row in (base, late, newer)]

    def are_known(expected: pa.Table, ours: pa.Table, *, last: int = 3, are_reused: bool = True) -> bool:
        states = RecordStates(first={}, last=versions[last - 1] if last else {}, versions=versions, left_out=["part"])
        return tells_other_versions(expected, ours, lambda *_: states if are_reused else None)

    insert = ("i", 1, None, base)
    ours = changes(insert, ("u", 3, base, newer))
    assert are_known(changes(insert, ("u", 2, base, late), ("u", 3, late, newer)), ours)
    assert are_known(changes(insert, ("u", 2, base, late)), ours)
    assert are_known(changes(insert), ours)
    # Each commit is merged with the slice before, anew.
    assert are_known(changes(insert, ("u", 2, base, late), ("u", 3, base, newer)), ours)
    deleted = [changes(insert, ("u", 2, base, late), ("d", 4, row, None)) for row in (base, late)]
    assert are_known(*deleted, last=0)

    assert not are_known(ours, ours)
    assert not are_known(changes(insert, ("u", 2, base, late)), ours, are_reused=False)
    # Hudi's are no versions of the record, or not of these commits.
    assert not are_known(changes(insert, ("u", 2, base, image(2, text="other"))), ours)
    assert not are_known(changes(insert, ("u", 2, base, newer)), ours)
    assert not are_known(changes(insert, ("u", 2, newer, late)), ours)
    assert not are_known(changes(insert, ("u", 3, base, newer), ("u", 3, base, newer)), ours)
    # Others than updates differ.
    assert not are_known(changes(("u", 2, base, late)), ours)
    assert not are_known(changes(insert, ("d", 2, base, None)), ours)
    # Ours do not lead from the first state to the last.
    assert not are_known(ours, changes(insert, ("u", 2, base, late)))
    assert not are_known(ours, changes(insert))
    assert not are_known(changes(insert), changes(insert, ("u", 2, base, late), ("u", 3, base, newer)))
    # What is left out of the states differs.
    assert not are_known(changes(insert), changes(insert, ("u", 3, {**base, "part": "other"}, newer)))


def test_unavailable_values_of_inserts_are_known_in_changes_of_0x(tmp_path: Path) -> None:
    def changes(op: str, text: str) -> pa.Table:
        image = json.dumps({"_hoodie_partition_path": "", "_hoodie_record_key": "a", "text": text})
        before = None if op == "i" else image
        return pa.table({"op": [op], "ts_ms": ["1"], "before": pa.array([before], pa.string()), "after": [image]})

    def are_known(payload: str, op: str, told: str, ours: str) -> bool:
        facts: dict[str, Any] = {"ordering": (), "columns": (("text", "string"),), "payload": payload}
        case = Case(tmp_path, {"instants": []}, table_with(merging="payload", release="0.15.0", **facts))
        return differs_as_changes_of_0x_do(case, changes(op, told), changes(op, ours))

    assert are_known(POSTGRES, "i", UNAVAILABLE_VALUE, "base")
    assert not are_known(POSTGRES, "i", "other", "base")
    assert not are_known(POSTGRES, "i", "base", UNAVAILABLE_VALUE)
    assert not are_known(POSTGRES, "u", UNAVAILABLE_VALUE, "base")
    assert not are_known(MYSQL, "i", UNAVAILABLE_VALUE, "base")
