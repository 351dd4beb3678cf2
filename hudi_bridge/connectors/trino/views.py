"""The SQL statements for the external tables, functions and realtime view of a publication."""

import pyarrow as pa

from hudi_bridge.connectors.trino.blocks import blocks_schema
from hudi_bridge.connectors.trino.compatibility import LogColumns
from hudi_bridge.connectors.trino.conditions import why_not_in_plain_sql
from hudi_bridge.connectors.trino.functions import (
    create_decode_function,
    create_payload_function,
    create_rows_function,
)
from hudi_bridge.connectors.trino.publication import BLOCKS, LOG, SLICES, Publication, PublishedSlice, slices_schema
from hudi_bridge.connectors.trino.realtime_view import BASE, PARTITION_PATH, RealtimeView
from hudi_bridge.connectors.trino.sql_types import (
    Dialect,
    Engine,
    ObjectNames,
    check_column_names,
    comment,
    identifier,
    literal,
    options,
    stored_type,
)
from hudi_bridge.connectors.trino.unmerged_view import UnmergedView
from hudi_bridge.errors import QueryError, UnsupportedTableError

_NOT_SHOWN = ("publication", "place", "layout")
"""The columns of blocks that are left out of the view for users."""


def statements(
    publication: Publication,
    *,
    catalog: str,
    schema: str,
    view: str,
    dialect: Dialect | None = None,
    base_table: str | None = None,
    slices: tuple[PublishedSlice, ...] = (),
) -> tuple[str, ...]:
    """The statements in the order to run them, without semicolons; running them again changes nothing.

    The dialect is that of the engine which the publication is for, or ANSI for one of Trino. ``base_table`` is required
    for the ANSI dialect, and refused for others: the SQL name of a table with the rows of the latest base files. There,
    the user creates the tables over the published files. ``slices`` are those of the publication, for Presto.

    Raises:
        QueryError: a catalog would not accept a name; the dialect does not fit the publication, or ``base_table`` or
            ``slices`` the dialect.
        UnsupportedTableError: the dialect cannot show the table; the message says why.
    """
    names = ObjectNames(catalog=catalog, schema=schema, view=view, fingerprint=publication.folder)
    context, columns = publication.context, publication.columns
    dialect = dialect or Dialect(publication.engine)
    if (dialect is Dialect.PRESTO) != (publication.engine is Engine.PRESTO):
        expected = f"one for {Engine.PRESTO if dialect is Dialect.PRESTO else Engine.TRINO}"
        raise QueryError(f"publication for {dialect} SQL", f"one for {publication.engine}", expected)
    if dialect is Dialect.PRESTO and len(slices) != publication.slices:
        raise QueryError("slices of the publication", f"{len(slices)} slices", f"all {publication.slices}")
    check_column_names(columns.schema.names)
    if (dialect is Dialect.ANSI) != (base_table is not None):
        raise QueryError("base table", repr(base_table), "one for the ANSI dialect, none for others")
    reason = why_not_in_plain_sql(context.merge_rule, merges_fields=publication.merges_fields)
    if dialect is Dialect.ANSI and reason is not None:
        raise UnsupportedTableError("merge rule in ansi SQL", reason, "orderings; the dialect trino has functions")
    if dialect is Dialect.ANSI:
        _refuse_in_ansi(publication)
    kind = RealtimeView if publication.is_merged else UnmergedView
    query = kind(
        publication=publication,
        names=names,
        dialect=dialect,
        base_table=base_table,
        merges_fields=dialect is not Dialect.ANSI and reason is not None,
        slices=slices if dialect is Dialect.PRESTO else None,
    ).query()
    head = comment(f"The rows of {publication.table_uri} as of {publication.instant}")
    create_view = f"{head}\nCREATE OR REPLACE VIEW {names.of_view} AS\n{query}"
    if dialect is Dialect.ANSI:
        return (create_view,)
    tables = (f"CREATE SCHEMA IF NOT EXISTS {names.of_schema}", *_create_tables(publication, names, dialect, columns))
    functions = _create_function(publication, names) if dialect is Dialect.TRINO else ()
    blocks = _create_blocks(publication, names, dialect) if publication.has_blocks else ()
    return (*tables, *functions, *blocks, create_view)


def _refuse_in_ansi(publication: Publication) -> None:
    if not publication.is_merged:
        description = "a publication of log blocks that are not merged"
        raise UnsupportedTableError("table in ansi SQL", description, "publications without --unmerged")
    if publication.whole:
        description = f"{publication.whole} file slices that are published whole: {publication.why_whole}"
        raise UnsupportedTableError("table in ansi SQL", description, "slices that SQL can merge with their base files")
    context = publication.context
    if PARTITION_PATH not in context.schema.names or not context.populates_meta_fields:
        raise UnsupportedTableError("table in ansi SQL", "no meta columns", f"tables with {PARTITION_PATH}")


def _create_tables(
    publication: Publication, names: ObjectNames, dialect: Dialect, columns: LogColumns
) -> tuple[str, ...]:
    """External tables over the folders of the Hudi table and of the published files."""
    context = publication.context
    # Presto reads the columns of the path from files that hold them.
    own_columns = () if dialect is Dialect.PRESTO else context.path_columns
    stored = pa.schema([columns.schema.field(name) for name in context.schema.names if name not in own_columns])
    own = f"{publication.own_uri.rstrip('/')}/{publication.folder}"
    return tuple(
        _create_table(names.of_part(part), schema, location, dialect)
        for part, schema, location in (
            (BASE, stored, publication.table_uri),
            (LOG, columns.schema, f"{own}/{LOG}"),
            (SLICES, slices_schema(context, columns), f"{own}/{SLICES}"),
        )
        if publication.is_merged or part != LOG
    )


def _create_table(name: str, schema: pa.Schema, location: str, dialect: Dialect) -> str:
    columns = ",\n  ".join(
        f"{identifier(field.name)} {stored_type(field.type, dialect, field.name)}" for field in schema
    )
    settings = options({"external_location": location, "format": "PARQUET"})
    return f"CREATE TABLE IF NOT EXISTS {name} (\n  {columns}\n)\nWITH ({settings})"


def _create_function(publication: Publication, names: ObjectNames) -> tuple[str, ...]:
    """The function that the view calls, if any."""
    context, rule = publication.context, publication.context.merge_rule
    if not publication.is_merged:
        return () if rule is None else (create_rows_function(names, context.schema),)
    if rule is None or rule.payload is None:
        return ()
    return (create_payload_function(names, context, rule.payload),)


def _create_blocks(publication: Publication, names: ObjectNames, dialect: Dialect) -> tuple[str, ...]:
    """The table of log blocks, a view of this publication's blocks and, for Trino, the function that decodes them."""
    table = names.of_part(BLOCKS)
    location = f"{publication.own_uri.rstrip('/')}/{publication.folder}/{BLOCKS}"
    schema = blocks_schema(publication.context, publication.columns)
    columns = ", ".join(identifier(name) for name in schema.names if name not in _NOT_SHOWN)
    view = (
        f"CREATE OR REPLACE VIEW {names.of_schema}.{identifier(f'{names.view}_blocks')} AS\n"
        f"SELECT {columns}\nFROM {table}\nWHERE publication = {literal(publication.publication)}"
    )
    decode = (create_decode_function(names),) if dialect is Dialect.TRINO else ()
    return _create_table(table, schema, location, dialect), view, *decode
