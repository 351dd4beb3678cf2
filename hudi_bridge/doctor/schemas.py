"""Checks of the schema history: it can be read, and the columns of every file can be read as those of the table."""

from collections.abc import Hashable, Iterator

import pyarrow as pa

from hudi_bridge.config import QueryType
from hudi_bridge.doctor.examined import Examined, Footer
from hudi_bridge.doctor.findings import Finding, Severity, quoted
from hudi_bridge.errors import CorruptTableError, HudiReadError
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from hudi_bridge.schema.evolve import StoredAs, key_of_schema
from hudi_bridge.schema.file_columns import Outcome, map_columns
from hudi_bridge.schema.internal import SCHEMA_FOLDER, parse_internal_schema, parse_schema_history, schema_for_instant
from hudi_bridge.splits.query_schema import columns_of_query, read_query_schema

_HISTORY, _COLUMNS = "schema-history", "file-schemas"


def schema_history(examined: Examined) -> Iterator[Finding]:
    """The schemas of all commits can be parsed, and so can the history with column ids, if there is one."""
    for time, commit in examined.commits.items():
        for text, parse in ((commit.schema_text, parse_avro_schema), (commit.latest_schema, parse_internal_schema)):
            if text is None:
                continue
            try:
                parse(text, f"commit {time}")
            except CorruptTableError as error:
                yield Finding(
                    severity=Severity.ERROR,
                    check=_HISTORY,
                    found=f"in the commit {time} {error.found}",
                    expected=error.expected,
                    remedy="restore the commit's file from a backup",
                )
    query = read_query_schema(examined.state)
    if query.source is not None:
        yield Finding(
            severity=Severity.WARNING,
            check=_HISTORY,
            path=examined.config.timeline_path,
            found=f"no commit with a schema; the columns are those of {query.source}",
            expected="the writer's schema in a commit, or hoodie.table.create.schema",
            remedy="the next commit with rows has it; until then, Hudi may read the table as empty, or fail",
        )
    if query.history is not None and query.ids is not None:
        versions = {schema.version_id for schema in parse_schema_history(query.history, SCHEMA_FOLDER)}
        latest = parse_internal_schema(query.ids, SCHEMA_FOLDER).version_id
        if latest not in versions:
            yield Finding(
                severity=Severity.ERROR,
                check=_HISTORY,
                path=SCHEMA_FOLDER,
                found=f"versions up to {max(versions, default=0)}",
                expected=f"the version {latest}, which the newest commit names",
                remedy="restore the folder from a backup; without, renamed columns of older files read as null",
            )


def file_schemas(examined: Examined) -> Iterator[Finding]:
    """The columns of each base file and log block can be read as those of the table."""
    state = examined.state
    query = read_query_schema(state)
    columns, path_columns = columns_of_query(query, examined.config, QueryType.SNAPSHOT)
    history = parse_schema_history(query.history, SCHEMA_FOLDER) if query.history is not None else ()
    query_ids = parse_internal_schema(query.ids, SCHEMA_FOLDER) if query.ids is not None else None
    known: dict[Hashable, list[str]] = {}
    for path, offset, instant, stored in _stored_schemas(examined):
        file_ids = schema_for_instant(history, instant)
        stored_as = StoredAs.PARQUET if offset is None else StoredAs.AVRO
        key = (key_of_schema(stored), stored_as, "" if file_ids is None else str(file_ids.version_id))
        if key not in known:
            mapped = map_columns(
                stored,
                columns,
                file_ids=file_ids,
                query_ids=query_ids,
                path_columns=path_columns,
                stored_as=stored_as,
            )
            known[key] = [
                f"the column {quoted(one.file_column)} as {one.file_type}, which cannot be read as {one.query_type}"
                for one in mapped
                if one.outcome is Outcome.REFUSED
            ]
        for found in known[key]:
            yield Finding(
                severity=Severity.ERROR,
                check=_COLUMNS,
                path=path,
                offset=offset,
                found=found,
                expected="a type that the table's schema widens",
                remedy="change the column back with ALTER TABLE, or write the file group again",
            )


def _stored_schemas(examined: Examined) -> Iterator[tuple[str, int | None, str, pa.Schema]]:
    """Path, offset, instant and columns of base files and data blocks that can be read."""
    parsed: dict[str, pa.Schema | None] = {}
    for piece in examined.slices:
        base = piece.base_file
        footer = None if base is None else examined.footers.get(base.path)
        if base is not None and isinstance(footer, Footer):
            yield base.path, None, base.instant_time, footer.schema
        for log in piece.log_files:
            scan = examined.log_heads.get(log.path)
            if scan is None or isinstance(scan, HudiReadError):
                continue
            for block in scan.blocks:
                text = block.schema_text
                if not block.is_data or text is None or block.instant_time is None:
                    continue
                if text not in parsed:
                    parsed[text] = _parsed(text, block.path)
                schema = parsed[text]
                if schema is not None:
                    yield block.path, block.offset, block.instant_time, schema


def _parsed(text: str, path: str) -> pa.Schema | None:
    try:
        return arrow_schema(parse_avro_schema(text, path))
    except HudiReadError:
        # The check of log blocks says so.
        return None
