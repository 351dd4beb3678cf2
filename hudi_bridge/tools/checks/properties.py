"""Checks of the table's properties and schemas: they agree with each other, with the folder, and with the columns of
files.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow as pa

from hudi_bridge.config import BACKUP_PATH, HOODIE_FOLDER, MergeMode, QueryType
from hudi_bridge.errors import CorruptTableError, HudiReadError, UnsupportedTableError
from hudi_bridge.merge import rules
from hudi_bridge.merge.payloads import merge_rule
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from hudi_bridge.schema.evolve import StoredAs, key_of_schema
from hudi_bridge.schema.file_columns import Outcome, map_columns
from hudi_bridge.schema.internal import SCHEMA_FOLDER, parse_internal_schema, parse_schema_history, schema_for_instant
from hudi_bridge.splits.query_schema import columns_of_query, read_query_schema
from hudi_bridge.timeline.instant import Action, parse_instant_file_name
from hudi_bridge.tools.checks.examined import Examined, Footer, data_files
from hudi_bridge.tools.checks.findings import Finding, Severity, listed, quoted

_CHECK = "properties"
_PATH = f"{HOODIE_FOLDER}/hoodie.properties"
_REPAIR = "CALL repair_overwrite_hoodie_props(table => …, new_props_file_path => …)"
_ERROR = partial(Finding, severity=Severity.ERROR, check=_CHECK, path=_PATH, remedy=_REPAIR)
_WARNING = partial(Finding, severity=Severity.WARNING, check=_CHECK, path=_PATH, remedy=_REPAIR)


def properties(examined: Examined) -> Iterator[Finding]:
    """The properties agree with each other, with the schema, and with what is in the table's folder."""
    yield from _merging(examined)
    yield from _fields(examined)
    yield from _folders(examined)


def _merging(examined: Examined) -> Iterator[Finding]:
    config = examined.config
    strategy_mode = rules.MODE_OF_STRATEGY.get(config.merge_strategy_id or "")
    deciding_mode = config.merge_mode if config.layout.states_merge_mode else None
    if deciding_mode is not None and strategy_mode not in (None, deciding_mode):
        yield _ERROR(
            found=f"hoodie.record.merge.mode={config.merge_mode}, with the id of the strategy for {strategy_mode}",
            expected="a mode and a strategy of the same kind",
        )
    payload = (config.payload_class or "").rpartition(".")[2]
    payload_mode = {name: mode for mode, name in rules.PAYLOAD_OF_MODE.items()}.get(payload)
    if deciding_mode in (MergeMode.COMMIT_TIME, MergeMode.EVENT_TIME) and payload_mode not in (None, deciding_mode):
        yield _ERROR(
            found=f"hoodie.record.merge.mode={config.merge_mode}, with the payload {quoted(payload)} of {payload_mode}",
            expected="a payload that does what the mode says; Hudi goes by the mode",
        )
    if config.merge_mode is MergeMode.EVENT_TIME and not config.ordering_fields and examined.is_merge_on_read:
        yield _WARNING(
            found="hoodie.record.merge.mode=EVENT_TIME_ORDERING without an ordering field",
            expected="hoodie.table.ordering.fields, or COMMIT_TIME_ORDERING; the later write wins",
        )
    if examined.is_merge_on_read:
        try:
            merge_rule(config, examined.state.options.payloads)
        except UnsupportedTableError as error:
            yield Finding(
                severity=Severity.INFO,
                check=_CHECK,
                path=_PATH,
                found=f"the {error.feature} {error.found}, whose merges are not known here",
                remedy="to read the table with Hudi Bridge, pass a payload of your own",
            )
    in_both_lists = sorted(set(config.metadata_partitions) & set(config.metadata_partitions_inflight))
    if in_both_lists:
        yield _WARNING(
            found=f"the indexes {listed(in_both_lists)} both complete and being built", expected="one of the two"
        )


def _fields(examined: Examined) -> Iterator[Finding]:
    config = examined.config
    names = read_query_schema(examined.state).arrow.names
    if not names:
        return
    lower = {name.lower() for name in names}
    for key, fields in (
        ("hoodie.table.recordkey.fields", config.record_key_fields),
        ("hoodie.table.ordering.fields", config.ordering_fields),
    ):
        # Before 1.0, Hudi stores an ordering field even if the table has none.
        unknown = [name for name in fields if name.partition(".")[0].lower() not in lower]
        is_default = fields == ("ts",) and key == "hoodie.table.ordering.fields"
        if unknown and not is_default:
            yield _ERROR(
                found=f"{key} with {listed(unknown)}", expected=f"columns of the table: {listed(names[-9:], 9)}"
            )
    kind, keys, parts = config.key_generator, config.record_key_fields, config.partition_fields
    if kind == "SIMPLE" and (len(keys) > 1 or len(parts) > 1):
        yield _ERROR(found=f"the key generator SIMPLE with the fields {listed((*keys, *parts))}", expected="COMPLEX")
    if kind == "NON_PARTITION" and parts:
        yield _ERROR(
            found=f"the key generator NON_PARTITION with the partition fields {listed(parts)}", expected="none"
        )


def _folders(examined: Examined) -> Iterator[Finding]:
    config, storage = examined.config, examined.storage
    listing = storage.list_directory(HOODIE_FOLDER)
    names = {info.name for info in listing}
    if BACKUP_PATH.rpartition("/")[2] in names:
        yield Finding(
            severity=Severity.WARNING,
            check=_CHECK,
            path=BACKUP_PATH,
            found="a backup of the properties beside them",
            expected="none, unless a writer is changing them right now",
            remedy="the next writer of Hudi ends the interrupted change",
        )
    indexes = (*config.metadata_partitions, *config.metadata_partitions_inflight)
    if indexes and "metadata" not in names:
        yield _ERROR(
            found=f"the indexes {listed(indexes)}, but no metadata table",
            expected=f"the folder {HOODIE_FOLDER}/metadata",
        )
    if config.timeline_layout > 1:
        stale_files = [name for name in names if name[:1].isdigit() and parse_instant_file_name(name, 1) is not None]
        if stale_files:
            yield Finding(
                severity=Severity.WARNING,
                check=_CHECK,
                path=f"{HOODIE_FOLDER}/{min(stale_files)}",
                found=f"{len(stale_files)} files of a timeline of layout 1",
                expected=f"instants in {config.timeline_path} alone",
                remedy="an upgrade was interrupted, or an older release writes to the table: stop it",
            )
    if not examined.is_merge_on_read:
        # A log file of commands alone is a rollback's.
        files = (file for path, entries in examined.read_files.items() for file in data_files(path, entries))
        logs = [file.path for file in files if file.log is not None and not file.is_cdc]
        if logs:
            yield _ERROR(
                found=f"the type COPY_ON_WRITE, but {len(logs)} log files ({listed(logs)})", expected="no logs"
            )
        deltas = {
            instant.requested_time for instant in examined.timeline.commits() if instant.action is Action.DELTA_COMMIT
        }
        bases = [
            file_slice.base_file.path
            for file_slice in examined.slices
            if file_slice.base_file and file_slice.base_instant_time in deltas
        ]
        if bases:
            yield _ERROR(
                found=f"the type COPY_ON_WRITE, but {len(bases)} base files of delta commits ({listed(bases)})",
                expected="base files of commits; Hudi passes over delta commits here",
            )


_HISTORY, _COLUMNS, _TIMES = "schema-history", "file-schemas", "timestamp-units"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = range(10**11, 5 * 10**12)
"""The years 1973 to 2128. Taken for microseconds, they are days of January and February 1970."""


def schema_history(examined: Examined) -> Iterator[Finding]:
    """The schemas in all commits can be parsed, and so can the history with column ids, if there is one."""
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
    """The columns of each base file and log block can be converted to the columns of the table."""
    state = examined.state
    query = read_query_schema(state)
    columns, path_columns = columns_of_query(query, examined.config, QueryType.SNAPSHOT)
    history = parse_schema_history(query.history, SCHEMA_FOLDER) if query.history is not None else ()
    query_ids = parse_internal_schema(query.ids, SCHEMA_FOLDER) if query.ids is not None else None
    refusals: dict[Hashable, list[str]] = {}
    for path, offset, instant, stored in _stored_schemas(examined):
        file_ids = schema_for_instant(history, instant)
        stored_as = StoredAs.PARQUET if offset is None else StoredAs.AVRO
        key = (key_of_schema(stored), stored_as, "" if file_ids is None else str(file_ids.version_id))
        if key not in refusals:
            mapped = map_columns(
                stored,
                columns,
                file_ids=file_ids,
                query_ids=query_ids,
                path_columns=path_columns,
                stored_as=stored_as,
            )
            refusals[key] = [
                f"the column {quoted(column.file_column)} as {column.file_type}, "
                f"which cannot be read as {column.query_type}"
                for column in mapped
                if column.outcome is Outcome.REFUSED
            ]
        for refusal in refusals[key]:
            yield Finding(
                severity=Severity.ERROR,
                check=_COLUMNS,
                path=path,
                offset=offset,
                found=refusal,
                expected="a type that the table's schema widens",
                remedy="change the column back with ALTER TABLE, or write the file group again",
            )


def _stored_schemas(examined: Examined) -> Iterator[tuple[str, int | None, str, pa.Schema]]:
    """Yields the path, offset, instant and columns of base files and of committed data blocks that can be read."""
    parsed: dict[str, pa.Schema | None] = {}
    for file_slice in examined.slices:
        base = file_slice.base_file
        footer = None if base is None else examined.footers.get(base.path)
        if base is not None and isinstance(footer, Footer):
            yield base.path, None, base.instant_time, footer.schema
        for log in file_slice.log_files:
            scan = examined.log_heads.get(log.path)
            if scan is None or isinstance(scan, HudiReadError):
                continue
            for block in scan.blocks:
                text, instant = block.schema_text, block.instant_time
                if not block.is_data or text is None or instant is None or not examined.timeline.is_committed(instant):
                    continue
                if text not in parsed:
                    parsed[text] = _parsed(text, block.path)
                schema = parsed[text]
                if schema is not None:
                    yield block.path, block.offset, instant, schema


def _parsed(text: str, path: str) -> pa.Schema | None:
    try:
        return arrow_schema(parse_avro_schema(text, path))
    except HudiReadError:
        # The check of log blocks reports the error.
        return None


def timestamp_units(examined: Examined) -> Iterator[Finding]:
    """Times that base files label as microseconds are not milliseconds by their range, as Hudi 0.14 to 1.0 wrote them.

    Hudi 1.1 and later take them for milliseconds once the table's schema says so (``TimestampLogicalTypeClassifier``).
    """
    columns, _ = columns_of_query(read_query_schema(examined.state), examined.config, QueryType.SNAPSHOT)
    ranges: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for footer in examined.footers.values():
        if isinstance(footer, HudiReadError):
            continue
        for column, bounds in footer.ranges.items():
            if _is_in_microseconds(footer.schema, column) and _is_in_microseconds(columns, column):
                least, greatest = map(_microseconds, bounds)
                ranges[column].append((least, greatest))
    for column, of_files in ranges.items():
        least, greatest = min(low for low, _ in of_files), max(high for _, high in of_files)
        if least in _MILLISECONDS and greatest in _MILLISECONDS:
            stored, meant = (
                " to ".join(str(_EPOCH + number * unit) for number in (least, greatest))
                for unit in (timedelta(microseconds=1), timedelta(milliseconds=1))
            )
            yield Finding(
                severity=Severity.WARNING,
                check=_TIMES,
                found=f"times from {stored} in the column {quoted(column)} of {len(of_files)} base files",
                expected=f"other times than in early 1970; as milliseconds, they are {meant}",
                remedy="if these are right, write a commit with Hudi 1.1 or newer: by its schema, older files have "
                "milliseconds",
            )


def _is_in_microseconds(schema: pa.Schema, column: str) -> bool:
    """Whether a column or, by a path with dots, a field of structs has timestamps in microseconds."""
    kind: pa.DataType = pa.struct(list(schema))
    for name in column.split("."):
        position = kind.get_field_index(name) if isinstance(kind, pa.StructType) else -1
        if position < 0:
            return False
        kind = kind.field(position).type
    return isinstance(kind, pa.TimestampType) and kind.unit == "us"


def _microseconds(time: datetime) -> int:
    return (time.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
