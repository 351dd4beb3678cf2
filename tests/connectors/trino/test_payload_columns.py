"""Which columns a payload touches, and that a merge of those alone is the merge of all."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiTable
from hudi_bridge.connectors.trino.functions import create_payload_function, make_rows_text
from hudi_bridge.connectors.trino.payload_columns import touched_columns
from hudi_bridge.connectors.trino.payload_udf import merged_rows
from hudi_bridge.connectors.trino.sql_types import ObjectNames
from hudi_bridge.merge.custom_payload import RecordPayload
from tests.connectors.trino.payloads import payload_in
from tests.support.golden_cases import golden_table
from tests.support.strength import examples

HEAD = "import json\nfrom hudi_bridge import RecordPayload\n\n\nclass Joined(RecordPayload):\n"
COMBINE = "    def combine_and_get_update_value(self, current, incoming):\n"
NAMES = ("a", "b", "c", "d")

CERTAIN: dict[str, AbstractSet[str]] = {
    "return incoming": set(),
    "return None": set(),
    "return current if incoming['a'] is None else incoming": {"a"},
    "return {**incoming, 'a': current['a'] or incoming['b']}": {"a", "b"},
    "return {'a': json.dumps([current['b']]), 'new': 1}": {"a", "b", "new"},
    "row = dict(incoming)\nrow['a'] = current.get('b', 0)\nreturn row": {"a", "b"},
    "row = current.copy()\nrow['a'] += 1\nif row['a'] == 1:\n    return None\nreturn row": {"a"},
    "row = incoming | {'c': current['c']}\nreturn row": {"c"},
    "row = incoming if current is None else current\nother = {**row, **incoming}\nreturn dict(other, d=1)": {"d"},
    "older, newer = current['a'], incoming['a']\nreturn incoming if older == newer else current": {"a"},
    "current['a'] = None\nreturn current": {"a"},
    "for n in range(2):\n    current['a'] = n\nreturn current": {"a"},
    "try:\n    return {**current, 'a': 1 / incoming['a']}\nexcept (ZeroDivisionError, TypeError):\n    return None": {
        "a"
    },
}
"""What combine_and_get_update_value does, and the columns that it touches."""

UNCERTAIN = (
    "return max(current, incoming, key=len)",
    "return {name: incoming[name] for name in current}",
    "return {**incoming, **{'a': 1, str(1): 2}}",
    "return {**incoming, 'a': current}",
    "return {**incoming, 'a': str(current)}",
    "return {**incoming, 'a': 'b' in current}",
    "return incoming if incoming else current",
    "return incoming if current == incoming else current",
    "return incoming and current",
    "name = 'a'\nreturn {**incoming, 'b': current[name]}",
    "row = incoming\nrow.update(a=current['b'])\nreturn row",
    "row = dict(incoming)\nfor name in ('a', 'b'):\n    row[name] = current[name]\nreturn row",
    "row = other = dict(incoming)\nreturn other",
    "row = dict(incoming)\nrow = {'a': row['b']}\nrow = json.loads('{}')\nreturn row",
    "current, incoming = incoming, current\nreturn current",
    "del incoming['a']\nreturn incoming",
    "return {**incoming, 'a': [current['b'] for current in [{'b': 1}]]}",
    "return {**incoming, 'a': (lambda incoming: incoming['b'])(current)}",
    "return {**incoming, 'a': f'{current}'}",
    "return {**incoming, 'a': locals()['current']}",
    "return {**incoming, 'a': (current := {'b': 1})['b']}",
    "match current:\n    case {'a': 1}:\n        return current\nreturn incoming",
    "match {'a': 1}:\n    case current:\n        pass\nreturn current",
    "def inner():\n    return current\nreturn inner()",
    "yield current",
    "self.combine = current\nreturn incoming",
    "return json.loads(json.dumps({}))",
    "return self.missing(current, incoming)",
    "return helper(current, incoming)",
    "return super().combine_and_get_update_value(current, incoming)",
)


def payload_of(folder: Path, body: str, *, head: str = HEAD, tail: str = "") -> RecordPayload:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return payload_in(folder, head + COMBINE + lines + tail)


@pytest.mark.parametrize("body", CERTAIN)
def test_columns_that_are_read_or_made_are_touched(body: str, tmp_path: Path) -> None:
    assert touched_columns(payload_of(tmp_path, body)) == CERTAIN[body]


@pytest.mark.parametrize("body", UNCERTAIN)
def test_what_is_uncertain_may_touch_any(body: str, tmp_path: Path) -> None:
    assert touched_columns(payload_of(tmp_path, body)) is None


METHOD = "    def _merged(self, older, newer):\n        return {**newer, 'b': older['a']}\n"


@pytest.mark.parametrize(
    ("head", "tail", "touched"),
    [
        (HEAD, METHOD, {"a", "b"}),
        (HEAD, METHOD.replace("older,", "*older,"), None),
        (HEAD, METHOD.replace("newer)", "newer=None)"), None),
        (HEAD, METHOD.replace("    def", "    @staticmethod\n    def"), None),
        (HEAD, METHOD + METHOD, None),
        (
            HEAD,
            METHOD + "    def __getattribute__(self, name):\n        return object.__getattribute__(self, name)\n",
            None,
        ),
        (HEAD, METHOD + "    other = 1\n", None),
        (HEAD, METHOD + "\n\nJoined._merged = None\n", None),
        (HEAD, METHOD + "\n\nsetattr(RecordPayload, 'x', 1)\n", None),
        (HEAD.replace("class", "def dict(row):\n    return {}\n\n\nclass"), METHOD, {"a", "b"}),
        (HEAD.replace("import json", "from json import *"), METHOD, None),
        (
            HEAD.replace("class", "class Base(RecordPayload):\n    pass\n\n\nclass").replace("d(Rec", "d(Base,Rec"),
            METHOD,
            None,
        ),
    ],
)
def test_methods_of_the_payload_are_looked_into(
    head: str, tail: str, touched: AbstractSet[str] | None, tmp_path: Path
) -> None:
    assert (
        touched_columns(payload_of(tmp_path, "return self._merged(current, incoming)", head=head, tail=tail)) == touched
    )


def test_a_function_that_is_called_dict_is_not_known(tmp_path: Path) -> None:
    head = HEAD.replace("class", "def dict(row):\n    return {**row, 'a': 1}\n\n\nclass")
    assert touched_columns(payload_of(tmp_path, "return dict(incoming)", head=head)) is None


def test_the_default_copies_the_log_record() -> None:
    assert touched_columns(RecordPayload()) == frozenset()


def merged(payload: RecordPayload, pairs: Sequence[Any], passed: Sequence[str]) -> list[Any]:
    """The merged rows, as Trino puts them together from marks and values."""
    places = [NAMES.index(name) for name in passed]
    space: dict[str, Any] = {}
    shapes = tuple((name, None) for name in passed)
    exec(make_rows_text(shapes), space)
    given_pairs = [tuple(tuple(row[location] for location in places) for row in pair) for pair in pairs]
    rows = []
    others = [name for name in NAMES if name not in passed]
    for pair, answer in zip(pairs, merged_rows(payload, given_pairs, NAMES, shapes, space["make_rows"]), strict=True):
        if answer is None:
            continue
        marks, values = answer
        row = dict(zip(passed, values, strict=True))
        for name, mark in zip(others, marks, strict=True):
            row[name] = None if mark == "n" else pair["bl".index(mark)][NAMES.index(name)]
        rows.append(tuple(row[name] for name in NAMES))
    return rows


def test_names_of_the_users_module_do_not_meet_those_of_the_function(tmp_path: Path) -> None:
    head = HEAD.replace("import json", "from datetime import datetime as dt\n\nrepeat, SPACE, picked = '$$', 1, None")
    payload = payload_of(tmp_path, "return {**incoming, 'a': repeat * dt.min.year}", head=head)
    table = HudiTable.open(str(golden_table("b_event_time_120")))
    schema = pa.schema([pa.field(name, pa.string()) for name in NAMES])
    names = ObjectNames(catalog="c", schema="s", view="v", fingerprint="f")
    statement = create_payload_function(names, replace(table.read_context(), schema=schema), payload)
    space: dict[str, Any] = {}
    exec(statement.split("$$")[1], space)
    assert space["handler"]([(("base",), ("log",)), (("base",), (None,))]) == [("lll", ("$$",))] * 2


VALUES = st.one_of(st.none(), st.integers(0, 2), st.sampled_from(["b", "l", "n"]))
ROWS = st.tuples(*[st.integers(0, 2)] * 2, VALUES, VALUES)


@pytest.mark.parametrize("body", CERTAIN)
def test_the_merge_of_the_touched_columns_is_the_merge_of_all(body: str, tmp_path: Path) -> None:
    payload = payload_of(tmp_path, body)
    touched = [name for name in NAMES if name in CERTAIN[body]] or ["a"]

    @settings(max_examples=examples(20), deadline=None)
    @given(pairs=st.lists(st.tuples(ROWS, ROWS), max_size=5))
    def check(pairs: list[Any]) -> None:
        answers = [
            payload.combine_and_get_update_value(*(dict(zip(NAMES, row, strict=True)) for row in pair))
            for pair in pairs
        ]
        expected = [tuple(map(row.get, NAMES)) for row in answers if row is not None]
        assert merged(payload, pairs, touched) == merged(payload, pairs, NAMES) == expected

    check()
