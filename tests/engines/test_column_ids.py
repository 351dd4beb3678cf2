"""The ids that Hudi keeps for columns, as engines are given them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hudi_bridge.engines import column_ids
from tests.support.table_writer import TableWriter, at


def hudi_schema(version: int, *fields: tuple[int, str, Any]) -> dict[str, Any]:
    columns = [{"id": id_, "name": name, "optional": True, "type": kind} for id_, name, kind in fields]
    return {"version_id": version, "max_column_id": 9, "type": "record", "fields": columns}


def test_each_version_tells_the_ids_of_columns_and_of_what_is_in_them(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    context = table.open().read_context()
    assert column_ids(context) == ()
    tags = {"type": "array", "element_id": 4, "element_optional": True, "element": "string"}
    seen = {
        "type": "map",
        "key_id": 5,
        "key": "string",
        "value_id": 6,
        "value_optional": True,
        "value": {"type": "record", "fields": [{"id": 7, "name": "n", "optional": True, "type": "int"}]},
    }
    parts = [{"id": -2, "name": "metadata", "optional": False, "type": "binary"}]
    parts += [{"id": -1, "name": "value", "optional": False, "type": "binary"}]
    variants = [(number, f"v{number}", {"type": "record", "fields": parts}) for number in (8, 9)]
    current = hudi_schema(7, (0, "b", "string"), (2, "tags", tags), (3, "seen", seen), *variants)
    versions = [current, hudi_schema(3, (0, "a", "string")), hudi_schema(9, (0, "later", "string"))]
    actual = column_ids(
        replace(context, schema_ids=json.dumps(current), schema_history=json.dumps({"schemas": versions}))
    )
    of_seen = {"seen": 3, "seen.key": 5, "seen.value": 6, "seen.value.n": 7}
    # The parts of every VARIANT have the same ids, so they are left out.
    assert actual == ({"b": 0, "tags": 2, "tags.element": 4, **of_seen, "v8": 8, "v9": 9}, {"a": 0})
