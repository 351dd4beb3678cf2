"""The fold of all keys at once equals the plain rules, key by key.

Ranks compare as the ordering values do in plain Python.
"""

import datetime as dt
import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge import fold
from hudi_bridge.merge.arrays import Column
from hudi_bridge.merge.fold import FieldMerging, Versions, fold_fields, fold_versions, ordering_ranks, what_versions_are
from hudi_bridge.merge.ordering import EARLIER, HIGHER, LATER, InLogs, field_source, is_lower, survivor
from hudi_bridge.merge.rules import DEFAULT_PAYLOAD, EVENT_TIME, PAYLOAD_RULES, FieldFill, MergeRule
from tests.support.strength import examples, one_in

OUTCOMES = st.tuples(*[st.sampled_from((EARLIER, LATER, HIGHER))] * 4)
IN_LOGS: dict[str, st.SearchStrategy[InLogs]] = {
    **{entry.rule.precedence.name: st.just(entry.rule.precedence.in_logs) for entry in PAYLOAD_RULES},
    "any": st.tuples(OUTCOMES, OUTCOMES, OUTCOMES, OUTCOMES),
}
"""The outcomes of each rule, and any that an entry could have."""
FIELDS = ("a", "b")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Versions, FieldMerging]:
    keys = draw(st.integers(1, 12))
    codes = draw(st.permutations([*range(keys), *draw(st.lists(st.integers(0, keys - 1), max_size=60))]))
    rows = len(codes)

    def flags(chance: int) -> Any:
        return np.array(draw(st.lists(st.integers(0, chance).map(lambda n: n == 0), min_size=rows, max_size=rows)))

    is_delete = flags(3)
    kinds = what_versions_are(is_delete, is_delete & flags(1), flags(1))
    versions = Versions(
        codes=np.array(codes, dtype=np.int64),
        keys=keys,
        ranks=np.array(draw(st.lists(st.integers(-2, 3), min_size=rows, max_size=rows)), dtype=np.int64),
        what=kinds,
    )
    unset = {name: flags(1) for name in FIELDS}
    return versions, FieldMerging(unset=unset, newest=frozenset({"meta"}), fills_earlier=draw(st.booleans()))


@pytest.mark.parametrize("narrow", one_in(3, [0, 3, 64]))
@pytest.mark.parametrize("name", IN_LOGS)
def test_folding_equals_the_plain_rules(name: str, narrow: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "_NARROW_ROUND", narrow)

    @settings(max_examples=examples(40), deadline=None)
    @given(case=cases(), rule=IN_LOGS[name])
    def check(case: tuple[Versions, FieldMerging], rule: InLogs) -> None:
        versions, merging = case
        of_key = [np.flatnonzero(versions.codes == key) for key in range(versions.keys)]
        expected = [int(of_key[key][survivor(rule, plain(versions, of_key[key]))]) for key in range(versions.keys)]
        assert fold_versions(rule, versions).tolist() == expected
        survivors, sources = fold_fields(rule, versions, merging)
        assert survivors.tolist() == expected
        assert sources.keys() == {*FIELDS, "meta"}
        for field, of_field in sources.items():
            expected_sources = [
                field_source(
                    rule,
                    plain(versions, positions),
                    unset_of(merging, field, positions),
                    newest=field == "meta",
                    fills_earlier=merging.fills_earlier,
                )
                for positions in of_key
            ]
            pairs = zip(of_key, expected_sources, strict=True)
            assert of_field.tolist() == [int(positions[source]) for positions, source in pairs]

    check()


def plain(versions: Versions, positions: Any) -> list[Any]:
    return [versions.at(int(position)) for position in positions]


def unset_of(merging: FieldMerging, name: str, positions: Any) -> list[bool]:
    return [bool(merging.unset[name][position]) if name in merging.unset else False for position in positions]


def test_no_versions_have_no_survivors() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    flags = np.zeros(0, dtype=np.bool_)
    versions = Versions(codes=nothing, keys=0, ranks=nothing, what=what_versions_are(flags, flags, flags))
    for entry in PAYLOAD_RULES:
        rule = entry.rule.precedence.in_logs
        assert fold_versions(rule, versions).tolist() == []
        assert fold_fields(rule, versions, FieldMerging(unset={"a": flags}))[1]["a"].tolist() == []


def test_many_keys_with_many_versions_are_folded_in_few_rounds() -> None:
    keys, times = 20_000, 5
    codes = np.tile(np.arange(keys), times)
    ranks = np.random.default_rng(7).integers(0, 3, keys * times)
    is_delete = np.zeros(keys * times, dtype=np.bool_)
    is_delete[: keys // 2] = True
    versions = Versions(codes=codes, keys=keys, ranks=ranks, what=what_versions_are(is_delete, is_delete))
    survivors = fold_versions(EVENT_TIME.in_logs, versions)
    for key in (0, keys // 2 - 1, keys // 2, keys - 1):
        positions = np.flatnonzero(codes == key)
        assert survivors[key] == positions[survivor(EVENT_TIME.in_logs, plain(versions, positions))]


NULLS_AS_ZERO = MergeRule(precedence=EVENT_TIME, ordering_fields=("o",))
NULLS_LOWEST = MergeRule(precedence=DEFAULT_PAYLOAD, ordering_fields=("o",))
"""Of Hudi 0.x."""


def moments(tz: dt.tzinfo | None) -> st.SearchStrategy[Any]:
    timezones = st.none() if tz is None else st.just(tz)
    naive = dt.datetime.fromisoformat
    return st.datetimes(naive("1900-01-01"), naive("2200-01-01"), timezones=timezones)


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1]), st.integers(-3, 3))


TEXTS = st.text(st.sampled_from(["a", "b", "\u00e9", "\uffff", "\U0001f600", "\x00"]), max_size=4)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): signed(8),
    pa.int16(): signed(16),
    pa.int32(): signed(32),
    pa.int64(): signed(64),
    pa.float32(): st.floats(width=32, allow_nan=False).filter(lambda value: value != 0 or math.copysign(1, value) > 0),
    pa.float64(): st.floats(allow_nan=False).filter(lambda value: value != 0 or math.copysign(1, value) > 0),
    pa.decimal128(10, 3): st.decimals(-1000, 1000, places=3),
    pa.decimal128(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    pa.date32(): st.dates(),
    pa.timestamp("us"): moments(None),
    pa.timestamp("us", "UTC"): moments(dt.UTC),
    pa.timestamp("ms"): moments(None).map(lambda moment: moment.replace(microsecond=0)),
    pa.time64("us"): st.times(),
    pa.time32("ms"): st.times().map(lambda time: time.replace(microsecond=0)),
    pa.bool_(): st.booleans(),
    pa.string(): TEXTS,
    pa.binary(): st.binary(max_size=4),
}
NUMBERS = [
    kind for kind in VALUES if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
]


def comparable(value: Any, rule: MergeRule) -> Any:
    """A value whose Python order among log versions is Hudi's: text goes by its bytes."""
    if rule.precedence.orders_as_0x:
        if isinstance(value, Decimal):
            return value < 0, value
        if isinstance(value, bytes):
            return [byte - 256 if byte > 127 else byte for byte in value]
    return value.encode() if isinstance(value, str) else value


def check_all_pairs(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]], rule: MergeRule) -> None:
    ranks = ordering_ranks(columns, len(rows), rule, against_base=False)
    assert len(ranks) == len(rows)
    for one, other in itertools.product(range(len(rows)), repeat=2):
        assert bool(ranks[one] < ranks[other]) is is_lower(rows[one], rows[other]), (rows[one], rows[other])


@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("rule", [NULLS_AS_ZERO, NULLS_LOWEST], ids=["nulls as zero", "nulls lowest"])
def test_ranks_compare_as_values_do(kind: pa.DataType, rule: MergeRule) -> None:
    @settings(max_examples=examples(15), deadline=None)
    @given(values=st.lists(st.one_of(st.none(), VALUES[kind]), max_size=12))
    def check(values: list[Any]) -> None:
        column: Any = pa.array(values, kind)
        null = 0 if rule is NULLS_AS_ZERO and kind in NUMBERS else None
        rows = [(null if value is None else comparable(value, rule),) for value in column.to_pylist()]
        check_all_pairs([column], rows, rule)

    check()


@settings(max_examples=examples(40), deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-2, 2)),
            st.one_of(st.none(), st.sampled_from(["a", "b", ""])),
            st.one_of(st.none(), st.integers(0, 1)),
        ),
        max_size=14,
    )
)
def test_several_fields_compare_from_left_to_right(rows: list[tuple[Any, ...]]) -> None:
    kinds = (pa.int64(), pa.string(), pa.int32())
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    check_all_pairs(columns, rows, NULLS_LOWEST)


def test_doubles_follow_the_total_order_of_java() -> None:
    ascending = [None, -math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, math.inf, math.nan]
    ranks = ordering_ranks([pa.array(ascending)], len(ascending), NULLS_LOWEST, against_base=False)
    assert all(one < other for one, other in itertools.pairwise(ranks.tolist()))
    both = ordering_ranks([pa.array([math.nan, -math.nan])], 2, NULLS_LOWEST, against_base=False)
    assert both[0] == both[1]


def test_a_missing_number_counts_as_zero_in_event_time() -> None:
    for kind in NUMBERS:
        column = pa.array([None, 0, 1, -1], kind)
        null, zero, one, minus = ordering_ranks([column], 4, NULLS_AS_ZERO, against_base=False).tolist()
        assert minus < null == zero < one


@pytest.mark.parametrize(
    ("kind", "ascending_in_logs", "ascending_against_base"),
    [
        (pa.decimal128(10, 2), [0, 3, 300, -300, -2], [-300, -2, 0, 3, 300]),
        (pa.binary(), [b"", b"\x80", b"\xff", b"\x00", b"\x7f"], [b"", b"\x80", b"\xff", b"\x00", b"\x7f"]),
    ],
)
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_0x_compares_what_avro_stores(
    kind: pa.DataType, ascending_in_logs: list[Any], ascending_against_base: list[Any], *, is_dictionary: bool
) -> None:
    for ascending, against_base in ((ascending_in_logs, False), (ascending_against_base, True)):
        values: Any = pa.array([None, None, *ascending], kind).slice(1)
        column = values.dictionary_encode() if is_dictionary else values
        ranks = ordering_ranks([column], len(column), NULLS_LOWEST, against_base=against_base).tolist()
        assert all(one < other for one, other in itertools.pairwise(ranks))


@pytest.mark.parametrize(
    ("kind", "values", "is_compared"),
    [
        (pa.decimal128(10, 2), [3, 5], False),
        (pa.date32(), [dt.date(2026, 1, 1), dt.date(2026, 1, 2)], False),
        (pa.int64(), [3, 5], True),
        (pa.string(), ["3", "5"], True),
    ],
)
def test_partial_update_of_0x_compares_values_of_one_class_with_base_rows(
    kind: pa.DataType, values: list[Any], *, is_compared: bool
) -> None:
    rule = MergeRule(precedence=DEFAULT_PAYLOAD, ordering_fields=("o",), fill=FieldFill.NULLS)
    of_log, of_base = ordering_ranks([pa.array(values, kind)], 2, rule, against_base=True).tolist()
    assert (of_log < of_base) is is_compared
    earlier, later = ordering_ranks([pa.array(values, kind)], 2, rule, against_base=False).tolist()
    assert earlier < later


def test_dictionaries_rank_by_their_values() -> None:
    column = pa.array(["b", None, "a", "b"]).dictionary_encode()
    ranks = ordering_ranks([column], 4, NULLS_LOWEST, against_base=False).tolist()
    assert ranks[1] < ranks[2] < ranks[0] == ranks[3]


def test_without_ordering_fields_all_are_equal() -> None:
    assert ordering_ranks([], 3, NULLS_LOWEST, against_base=False).tolist() == [0, 0, 0]


def test_sequences_are_numbers_against_the_base_and_text_among_logs() -> None:
    rule = MergeRule(precedence=DEFAULT_PAYLOAD, ordering_fields=("o",), sequences_against_base=True)
    column = pa.array(["9.10", "10.2", "9.9", None])
    in_logs = ordering_ranks([column], 4, rule, against_base=False).tolist()
    assert in_logs[3] < in_logs[1] < in_logs[0] < in_logs[2]
    against_base = ordering_ranks([column], 4, rule, against_base=True).tolist()
    assert against_base[3] < against_base[2] < against_base[0] < against_base[1]


@pytest.mark.parametrize("keeps_base", [False, True])
def test_of_equal_sequences_that_of_the_base_row_may_win(keeps_base: bool) -> None:
    rule = MergeRule(
        precedence=DEFAULT_PAYLOAD,
        ordering_fields=("o",),
        sequences_against_base=True,
        equal_sequences_keep_base=keeps_base,
    )
    of_log, of_base = ordering_ranks([pa.array(["5.10", "5.10"])], 2, rule, against_base=True).tolist()
    assert (of_log < of_base) == keeps_base
    assert of_log <= of_base


def test_no_rows_have_no_ranks() -> None:
    for kind in VALUES:
        assert ordering_ranks([pa.array([], kind)], 0, NULLS_AS_ZERO, against_base=False).tolist() == []


def test_vectors_have_no_order() -> None:
    column: Column = pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))
    with pytest.raises(UnsupportedTableError, match="ordering field"):
        ordering_ranks([column], 2, NULLS_AS_ZERO, against_base=False)
