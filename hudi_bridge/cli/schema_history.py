"""The options ``--history``, ``--file`` and ``--infer`` of ``schema``.

A table on the screen and CSV have one row per change, other formats one per version. A proposal as JSON is the text
that Hudi stores in ``.hoodie/.schema``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import pyarrow as pa
import typer

from hudi_bridge.cli.output import Destination, Format, open_sink, write
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.errors import QueryError
from hudi_bridge.schema.difference import SchemaChange, type_name
from hudi_bridge.schema.infer import SchemaProposal
from hudi_bridge.schema.internal import InternalSchema
from hudi_bridge.splits.schema_history import FileColumns, SchemaVersion
from hudi_bridge.table import HudiTable

History = Annotated[bool, typer.Option("--history", help="Show the versions of the schema and what each has changed.")]
File = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="PATH",
        help="Show how the columns of a base file or log file, by its path in the table, map to those of the query.",
        show_default=False,
    ),
]
Infer = Annotated[
    bool,
    typer.Option(
        "--infer",
        help="Propose a history with column ids for a table without one; --format json has Hudi's form.",
    ),
]
# Instant, schema, whether its column ids identify columns across versions, and its changes.
_Version: TypeAlias = tuple[str, InternalSchema, bool, tuple[SchemaChange, ...]]


def _fields(**types: Any) -> "list[pa.Field[Any]]":  # noqa: ANN401 - pyarrow has no common class in its stubs
    return [pa.field(name, type_) for name, type_ in types.items()]


_COLUMN = pa.struct(_fields(id=pa.int64(), name=pa.string(), type=pa.string(), optional=pa.bool_()))
_CHANGE = pa.struct(
    _fields(
        kind=pa.string(),
        column=pa.string(),
        column_id=pa.int64(),
        before=pa.string(),
        after=pa.string(),
        place=pa.string(),
        text=pa.string(),
    )
)
VERSIONS_SCHEMA = pa.schema(
    _fields(instant=pa.string(), has_ids=pa.bool_(), columns=pa.list_(_COLUMN), changes=pa.list_(_CHANGE))
)
CHANGES_SCHEMA = pa.schema(_fields(instant=pa.string(), column_id=pa.int64(), change=pa.string()))
FILE_COLUMNS_SCHEMA = pa.schema(
    _fields(
        block_offset=pa.int64(),
        instant=pa.string(),
        column=pa.string(),
        id=pa.int64(),
        file_column=pa.string(),
        file_type=pa.string(),
        query_type=pa.string(),
        what_happens=pa.string(),
    )
)


def write_schema_history(
    table: HudiTable, destination: Destination, *, history: bool, file: str | None, infer: bool, as_of: str | None
) -> None:
    """Writes the output of one of the three options.

    Raises:
        QueryError: the options contradict each other.
    """
    if history + infer + (file is not None) > 1:
        raise QueryError("--history, --file, --infer", "more than one of them", "one")
    if file is not None:
        _write(FILE_COLUMNS_SCHEMA, _iter_file_rows(table.file_columns(file, as_of)), destination)
        return
    if as_of is not None:
        raise QueryError("--as-of", "an instant", "none: the history is that of all instants")
    if infer:
        _write_proposal(table.propose_schema_history(), destination)
    else:
        _write_history(table.schema_history, destination)


def _write_history(versions: tuple[SchemaVersion, ...], destination: Destination) -> None:
    if any(not version.has_ids for version in versions):
        print_note("the table keeps no column ids: columns go by name, and a rename looks like a drop and an add")
    _write_versions(
        [
            (schema_version.instant, schema_version.schema, schema_version.has_ids, schema_version.changes)
            for schema_version in versions
        ],
        destination,
    )


def _write_proposal(proposal: SchemaProposal, destination: Destination) -> None:
    for ambiguity in proposal.ambiguities:
        print_note(f"{ambiguity.instant}: {ambiguity}")
    if destination.format is Format.JSON:
        with open_sink(destination.path, no_clobber=destination.no_clobber) as sink:
            sink.write(f"{proposal.to_json()}\n".encode())
        return
    steps = zip(proposal.instants, proposal.versions, proposal.changes, strict=True)
    _write_versions([(instant, schema, True, changes) for instant, schema, changes in steps], destination)


def _write_versions(versions: Sequence[_Version], destination: Destination) -> None:
    if destination.format not in (Format.TABLE, Format.CSV, Format.SPREADSHEET):
        _write(VERSIONS_SCHEMA, map(_version_row, versions), destination)
        return
    rows = (row for position, version in enumerate(versions) for row in _iter_change_rows(version, position))
    _write(CHANGES_SCHEMA, rows, destination)


def _version_row(version: _Version) -> Mapping[str, Any]:
    instant, schema, has_ids, changes = version
    columns = [
        {
            "id": field.id if has_ids else None,
            "name": field.name,
            "type": type_name(field.type),
            "optional": field.optional,
        }
        for field in schema.fields
    ]
    row = [
        {
            "kind": str(change.kind),
            "column": change.column,
            "column_id": change.id,
            "before": change.before,
            "after": change.after,
            "place": change.place,
            "text": str(change),
        }
        for change in changes
    ]
    return {"instant": instant, "has_ids": has_ids, "columns": columns, "changes": row}


def _iter_change_rows(version: _Version, position: int) -> Iterator[Mapping[str, Any]]:
    instant, schema, _, changes = version
    row = {"instant": instant, "column_id": None}
    if position == 0:
        yield row | {"change": f"first version, {len(schema.fields)} columns"}
    elif not changes:
        yield row | {"change": "no column changed"}
    for change in changes:
        yield row | {"change": str(change), "column_id": change.id}


def _iter_file_rows(parts: Iterable[FileColumns]) -> Iterator[Mapping[str, Any]]:
    for part in parts:
        for mapping in part.columns:
            yield {
                "block_offset": part.offset,
                "instant": part.instant_time,
                "column": mapping.column,
                "id": mapping.id,
                "file_column": mapping.file_column,
                "file_type": mapping.file_type,
                "query_type": mapping.query_type,
                "what_happens": str(mapping),
            }


def _write(schema: pa.Schema, rows: Iterable[Mapping[str, Any]], destination: Destination) -> None:
    write(pa.Table.from_pylist([dict(row) for row in rows], schema=schema).to_reader(), destination)
