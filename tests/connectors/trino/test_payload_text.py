from pathlib import Path

import pytest

from hudi_bridge.connectors.trino.payload_columns import INSTANCE, payload_text, without_imports
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.custom_payload import RecordPayload
from tests.connectors.trino.payloads import payload_in

GOOD = '''
"""A payload."""

from __future__ import annotations

import json
from hudi_bridge import RecordPayload
from hudi_bridge.merge.custom_payload import (Row)

SIGNS = "+"


class Joined(RecordPayload):
    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row:
        return {**incoming, "value": json.dumps([current["value"], SIGNS, incoming["value"]])}
'''


def test_the_text_stands_on_its_own(tmp_path: Path) -> None:
    text = payload_text(payload_in(tmp_path, GOOD))
    assert "hudi_bridge" not in text
    space: dict[str, RecordPayload] = {}
    exec("from __future__ import annotations\n" + text, space)
    row = space[INSTANCE].combine_and_get_update_value({"value": "a"}, {"id": "x", "value": "b"})
    assert row == {"id": "x", "value": '["a", "+", "b"]'}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("import json", "import dataclasses, json"), "import of dataclasses"),
        (("import json", "import json\nfrom numpy import array"), "import of numpy"),
        (("return {**", "import pyarrow\n        return {**"), "import of pyarrow"),
        (("    def combine", "    def __init__(self): self.x = 1\n    def combine"), "object with attributes"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    payload = payload_in(tmp_path, GOOD.replace(*change))
    with pytest.raises(UnsupportedTableError, match=message):
        payload_text(payload)


def test_a_class_inside_a_function_is_refused() -> None:
    class Local(RecordPayload):
        pass

    with pytest.raises(UnsupportedTableError, match="at the top of a module"):
        payload_text(Local())


def test_imports_of_several_lines_go_away_and_others_stay() -> None:
    text = '"""Doc."""\nfrom hudi_bridge import (\n    a,\n    b,\n)\nimport json\nx = 1'
    assert without_imports(text, "hudi_bridge") == "import json\nx = 1"
