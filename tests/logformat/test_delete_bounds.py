"""The deletes of large blocks, found from many places at once, are those that are found one after another."""

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat import delete_records
from hudi_bridge.logformat.delete_records import DeleteList, decode_delete_list, delete_bounds
from tests.logformat.log_writer import avro_long, avro_text, delete_list, wrapped
from tests.support.strength import examples

PATH = ".f1-0_001.log.1_0-1-2"
DELETES = 3_000
ORDERINGS = (wrapped(0), wrapped(2, avro_long(0)), wrapped(3, avro_long(-70_000)), wrapped(7, avro_text("text")))


def payload(keys: list[str], paths: list[str | None], orderings: list[bytes]) -> bytes:
    repeated = (
        (f"{keys[number % len(keys)]}{number}", paths[number % len(paths)], orderings[number % len(orderings)])
        for number in range(DELETES)
    )
    return delete_list(list(repeated))


def is_chained(content: bytes) -> bool:
    return delete_bounds(pa.py_buffer(content), delete_records._DELETE, PATH, 0) is not None


def outcome(content: bytes) -> DeleteList | str:
    try:
        return decode_delete_list(pa.py_buffer(content), PATH, 0)
    except CorruptLogFileError as error:
        # Without bounds, the list is one record.
        return re.sub(r"record \d+ of", "a record of", str(error))


def one_by_one(content: bytes) -> DeleteList | str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delete_records, "delete_bounds", lambda *_: None)
        return outcome(content)


def require_same(content: bytes) -> None:
    actual, expected = outcome(content), one_by_one(content)
    if isinstance(actual, str) or isinstance(expected, str):
        assert actual == expected
        return
    assert actual.record_keys.equals(expected.record_keys)
    assert actual.partition_paths.equals(expected.partition_paths)
    assert actual.field_counts.tolist() == expected.field_counts.tolist()
    groups = [
        [(group.field_index, group.kind, group.positions.tolist(), group.values.to_pylist()) for group in some.groups]
        for some in (actual, expected)
    ]
    assert groups[0] == groups[1]


@settings(max_examples=examples(20))
@given(
    keys=st.lists(st.text(max_size=90), min_size=1, max_size=5),
    path=st.text(max_size=70),
    ordering=st.sampled_from(ORDERINGS),
)
def test_deletes_of_one_partition(keys: list[str], path: str, ordering: bytes) -> None:
    require_same(payload(keys, [path], [ordering]))


@settings(max_examples=examples(20))
@given(
    keys=st.lists(st.sampled_from(("k", "", "\x02\x00\x06", "a=1")), min_size=1, max_size=3),
    paths=st.lists(st.sampled_from(("", "a=1", None)), min_size=1, max_size=3),
    orderings=st.lists(st.sampled_from(ORDERINGS), min_size=1, max_size=4),
)
def test_deletes_of_any_kind(keys: list[str], paths: list[str | None], orderings: list[bytes]) -> None:
    require_same(payload(keys, paths, orderings))


@pytest.mark.parametrize("path", ["", "a=1/b=2"])
@pytest.mark.parametrize("ordering", ORDERINGS)
def test_usual_lists_need_no_step_for_each_delete(path: str, ordering: bytes) -> None:
    assert is_chained(payload(["order-", "k"], [path], [ordering]))


def test_a_small_list_is_stepped_over() -> None:
    assert not is_chained(delete_list([("k", "p", wrapped(0))] * 100))


@settings(max_examples=examples(60))
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_damage_is_told_as_it_is_one_by_one(place: float, value: int) -> None:
    content = bytearray(payload(["order-"], ["a=1"], [ORDERINGS[2]]))
    content[int(place * len(content))] = value
    require_same(bytes(content))


@settings(max_examples=examples(30))
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_damage_of_deletes_of_one_width_is_told_as_it_is_one_by_one(place: float, value: int) -> None:
    content = bytearray(delete_list([(f"{number:06}", "a=1", ORDERINGS[1]) for number in range(DELETES)]))
    assert is_chained(bytes(content))
    require_same(bytes(content))
    content[int(place * len(content))] = value
    require_same(bytes(content))


def test_deletes_of_several_widths_that_fill_the_list_as_one_width_would() -> None:
    widths = (3, 2, 4, 3)
    content = delete_list([("k" * widths[number % 4], "a=1", ORDERINGS[1]) for number in range(DELETES)])
    assert not isinstance(outcome(content), str)
    require_same(content)


@pytest.mark.parametrize("count", [512, 513, 10_000, 2**40, 2**62])
def test_a_list_that_announces_more_than_it_has_bytes_for(count: int) -> None:
    [_, *rest] = delete_list([("key", "part", wrapped(0))])
    content = avro_long(count) + bytes(rest)
    assert not is_chained(content)
    assert isinstance(outcome(content), str)
