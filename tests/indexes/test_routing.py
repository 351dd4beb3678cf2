import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.indexes.record_kinds import group_numbers


def java_hash(key: str) -> int:
    hashed = 0
    units = key.encode("utf-16-be")
    for position in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[position : position + 2], "big")) & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >> 31 else hashed


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.integers(1, 50))
def test_the_group_is_that_of_java(keys: list[str], groups: int) -> None:
    actual = group_numbers(pa.array(keys, pa.string()), groups).tolist()
    assert actual == [abs(java_hash(key)) % groups for key in keys]


@pytest.mark.parametrize(("key", "group"), [("polygenelubricants", 2**31 % 10), ("", 0), ("a", 7)])
def test_known_hashes(key: str, group: int) -> None:
    assert group_numbers(pa.array([key], pa.string()), 10).tolist() == [group]


def test_many_keys_are_hashed_in_parts() -> None:
    keys = [f"{number}" * 40 for number in range(50_000)]
    actual = group_numbers(pa.array(keys), 7)
    assert actual[::997].tolist() == [abs(java_hash(key)) % 7 for key in keys[::997]]
