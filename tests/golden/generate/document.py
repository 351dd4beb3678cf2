"""``case.json``: the description of a table, its queries and their answers (see tests/golden/README.md)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.golden.generate.answers import Reader
from tests.golden.generate.by_hand import BY_HAND
from tests.golden.generate.log_blocks import inventory
from tests.golden.generate.timeline import instants, properties, table_version
from tests.golden.generate.writer import Writer

NAME = "case.json"
_MANY_FILTERS = 4


def describe(writer: Writer, folder: Path) -> dict[str, Any]:
    """Runs the queries on a finished table, and writes ``expected/`` and ``case.json`` beside it."""
    case, table = writer.case, writer.path
    (folder / "expected").mkdir()
    actual, version, timeline = properties(table), table_version(table), instants(table)
    questions = writer.questions.about(timeline, version, has_changes=actual.get("hoodie.table.cdc.enabled") == "true")
    reader = Reader(
        spark=writer.spark,
        table=table,
        reader_options=writer.reader_options,
        many_filters=len(writer.questions.filters) >= _MANY_FILTERS and case.group == "k",
    )
    document = {
        "name": case.name,
        "letter": case.name[0].upper(),
        "covers": case.covers,
        "split": "public",
        "hudi_version": case.release,
        "oracle": f"hudi {case.release} on Spark {writer.spark.version}",
        "table_version": version or None,
        "table_type": actual.get("hoodie.table.type"),
        "table": "table",
        "parameters": case.parameters,
        "reader_options": writer.reader_options,
        "instants": [instant.as_dict() for instant in timeline],
        "queries": [reader.answer(question, folder) for question in questions],
        "notes": writer.notes,
        "expected_by_hand": [BY_HAND[case.name]] if case.name in BY_HAND else [],
        "internal_schema_history": sorted(path.name for path in (table / ".hoodie" / ".schema").glob("*.schemacommit")),
        "metadata_table": (table / ".hoodie" / "metadata").is_dir(),
        "log_blocks": inventory(table),
    }
    save(document, folder)
    return document


def load(folder: Path) -> dict[str, Any]:
    """The document of a case."""
    document: dict[str, Any] = json.loads((folder / NAME).read_text())
    return document


def save(document: Mapping[str, Any], folder: Path) -> None:
    """Writes the document of a case."""
    (folder / NAME).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
