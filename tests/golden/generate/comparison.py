"""Compares generated cases with those of the archives, and Hudi's answers too."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden.generate.document import load
from tests.golden.generate.log_blocks import inventory
from tests.golden.generate.timeline import instants, table_version
from tests.support.compare import differences
from tests.support.golden_cases import golden_case

OF_THE_CLOCK = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name", "ts_ms")
"""Columns of instants and of random numbers. Record keys that Hudi has generated are left out as well."""

TABLE_FACTS: Mapping[str, Callable[[Path], Any]] = {
    "table version": table_version,
    "instants": lambda table: [(instant.action, instant.state) for instant in instants(table)],
    "log blocks": inventory,
}
IMAGES = ("before", "after")
"""Columns of change data capture that hold rows as JSON."""


def compare(folder: Path) -> int:
    """Prints how the cases in a folder differ from those of the archives; returns 1 if any do."""
    status = 0
    for made in sorted(path.parent for path in folder.glob("*/case.json")):
        lines = list(_differences(golden_case(made.name), made))
        print(f"{made.name}: {len(load(made)['queries'])} questions, {len(lines)} differences")
        for line in lines:
            print(f"    {line}")
            status = 1
    return status


def _differences(archived: Path, made: Path) -> Iterator[str]:
    for fact, of_table in TABLE_FACTS.items():
        was, is_now = of_table(archived / "table"), of_table(made / "table")
        if was != is_now:
            yield f"{fact}: {was}, now {is_now}"
    before, now = _by_kind(archived), _by_kind(made)
    for kind in sorted({*before, *now}):
        if len(before[kind]) != len(now[kind]):
            yield f"{kind}: {len(before[kind])} questions, now {len(now[kind])}"
            continue
        for archived_query, query in zip(before[kind], now[kind], strict=True):
            one, other = _answer(archived, archived_query), _answer(made, query)
            if one is None or other is None:
                if one is not None or other is not None:
                    outcome = "failed" if one is None else "answered"
                    yield f"{kind} {query['options']}: {outcome}, now {query.get('oracle_error') or 'answered'}"
            elif actual := differences(one, other):
                yield f"{kind} {query['options']}: {'; '.join(actual)}"


def _by_kind(folder: Path) -> defaultdict[str, list[dict[str, Any]]]:
    """The queries of a case by kind, in the order of their instants."""
    queries: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for query in load(folder)["queries"]:
        queries[query["kind"]].append(query)
    return queries


def _answer(folder: Path, query: Mapping[str, Any]) -> pa.Table | None:
    if query["expected"] is None:
        return None
    rows = pq.read_table(folder / query["expected"])
    dropped = [name for name in OF_THE_CLOCK if name in rows.column_names]
    keys = rows["_hoodie_record_key"] if "_hoodie_record_key" in rows.column_names else None
    if keys is not None and _are_generated(keys):
        dropped.append("_hoodie_record_key")
    for name in IMAGES:
        if name in rows.column_names:
            images = pa.array([_comparable(text) for text in rows[name].to_pylist()], pa.string())
            rows = rows.set_column(rows.column_names.index(name), name, images)
    return rows.drop_columns(dropped)


def _comparable(image: str | None) -> str | None:
    """The JSON of a row in one form, without values from the clock, and without nulls, which Hudi may leave out."""
    fields = json.loads(image or "null")
    if fields is None:
        return None
    kept = {name: value for name, value in fields.items() if name not in OF_THE_CLOCK and value is not None}
    return json.dumps(kept, sort_keys=True)


def _are_generated(keys: "pa.ChunkedArray[Any]") -> bool:
    """Whether Hudi has generated the record keys: these begin with an instant."""
    return any(str(key)[:17].isdigit() and str(key)[17:18] == "_" for key in keys.to_pylist())
