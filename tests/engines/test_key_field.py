"""Whether base rows may be joined by a key field: by tables whose keys are spelled in many ways."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hudi_bridge.engines import SurvivingLogRecords, slice_delta
from tests.support.strength import examples
from tests.support.table_writer import TableWriter, at

KEY = "_hoodie_record_key"
FIELDS = (("id", "string"), ("n", "int"), ("ts", "long"))


def spelled(key: str, value: Any, name: str = "id") -> dict[str, Any]:
    return {KEY: key, "id": None, "n": None, "ts": 1, name: value}


def records(
    folder: Path,
    base: Sequence[Mapping[str, Any]],
    log: Sequence[Mapping[str, Any]],
    deletes: Sequence[str] = (),
    key_field: str = "id",
) -> SurvivingLogRecords:
    table = TableWriter(folder=folder, fields=FIELDS, key_field=key_field).create()
    table.base_file(at(1), base)
    blocks = [table.data_block(at(2), log), table.delete_block(at(2), [(key, None) for key in deletes])]
    table.log_file(at(2), blocks)
    table.commit(at(1))
    table.commit(at(2))
    (split,) = table.open().splits()
    with slice_delta(split) as delta:
        actual = delta.log_records()
    assert isinstance(actual, SurvivingLogRecords)
    return actual


def test_deletes_have_the_value_of_their_base_row(tmp_path: Path) -> None:
    actual = records(tmp_path, [spelled(key, key) for key in "abc"], [spelled("a", "a")], ["c", "gone"])
    assert dict(zip(actual.keys.to_pylist(), actual.key_values["id"].to_pylist(), strict=True)) == {
        "a": "a",
        "c": "c",
        "gone": "gone",
    }


def test_numbers_are_a_key_field_too(tmp_path: Path) -> None:
    base = [spelled(str(n), n, "n") for n in range(3)]
    actual = records(tmp_path, base, [spelled("1", 1, "n")], ["2"], key_field="n")
    assert actual.key_values["n"].to_pylist() == [1, 2]


def test_keys_that_begin_with_the_name_of_the_field_are_found_by_it_unless_deleted(tmp_path: Path) -> None:
    base = [spelled(f"n:{n}", n, "n") for n in range(3)]
    log = [spelled("n:1", 1, "n")]
    assert records(tmp_path / "rows", base, log, key_field="n").key_values["n"].to_pylist() == [1]
    assert records(tmp_path / "deletes", base, log, ["n:2"], key_field="n").key_values == {}


@pytest.mark.parametrize(
    ("base", "log"),
    [
        ([("a", "x")], [("a", "y")]),  # the field of a record has changed
        ([("a", "x"), ("b", "y")], [("a", "y"), ("b", "x")]),
        ([("a", "x"), ("b", "x")], [("a", "x")]),  # two records have the same value
        ([("a", "x")], [("b", "x")]),
        ([("a", "x")], [("a", "x"), ("b", "x")]),
        ([("a", None)], [("a", None)]),
    ],
)
def test_fields_that_find_other_records_are_none_to_join_by(base: Any, log: Any, tmp_path: Path) -> None:
    actual = records(tmp_path, [spelled(*item) for item in base], [spelled(*item) for item in log])
    assert actual.key_values == {}


@pytest.mark.parametrize("key_field", ["id,n", "ts.inner", "unknown", ""])
def test_only_one_column_is_a_key_field(key_field: str, tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, fields=FIELDS, options={"hoodie.table.recordkey.fields": key_field}).create()
    table.base_file(at(1), [spelled("a", "a")])
    table.log_file(at(2), [table.data_block(at(2), [spelled("a", "a")])])
    table.commit(at(1))
    table.commit(at(2))
    (split,) = table.open().splits()
    with slice_delta(split) as delta:
        actual = delta.log_records()
    assert isinstance(actual, SurvivingLogRecords)
    assert actual.key_values == {}


ROWS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([None, "a", "b", "c", "d"]), max_size=4)
MOSTLY_KEYS = st.one_of(ROWS, st.sets(st.sampled_from("abcd")).map(lambda keys: {key: key for key in keys}))


@settings(max_examples=examples(60), deadline=None)
@given(base=MOSTLY_KEYS, log=MOSTLY_KEYS, deletes=st.sets(st.sampled_from("abcd")))
@example(base={"a": None}, log={"b": None}, deletes=set())
def test_a_join_by_the_field_is_a_join_by_the_key(
    base: dict[str, str | None], log: dict[str, str | None], deletes: set[str]
) -> None:
    with TemporaryDirectory() as folder:
        rows = [[spelled(*item) for item in side.items()] for side in (base, log)]
        actual = records(Path(folder) / "t", rows[0], rows[1], sorted(deletes))
    by_key = {(key, key) for key in base for other in actual.keys.to_pylist() if key == other}
    if actual.key_values:
        values = zip(actual.keys.to_pylist(), actual.key_values["id"].to_pylist(), strict=True)
        # In SQL, null is equal to nothing.
        pairs = [(other, value) for other, value in values if value is not None]
        assert {(key, other) for other, value in pairs for key, of_base in base.items() if value == of_base} == by_key
    elif all(key == value for side in (base, log) for key, value in side.items()):
        pytest.fail("the field is the key in all rows")
