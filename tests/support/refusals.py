"""What is refused by name: for each kind a table that has it, from which docs/unsupported.md takes the message.

    python -m tests.support.compatibility_page

writes the messages into the page; ``tests/project/test_compatibility_page.py`` asks for each again.
"""

import datetime as dt
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from lance.file import LanceFileReader, LanceFileWriter

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.logformat.layout import MAGIC, BlockType, HeaderKey
from hudi_bridge.options import BLOB_SOURCE_KEY, READ_UNRELEASED_KEY
from hudi_bridge.tools import history_of
from tests.logformat.log_writer import log_block
from tests.support.golden_cases import GoldenQuery, golden_base_formats, golden_blobs, golden_bootstrapped
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

BEGIN = "<!-- refusals made by tests/support/compatibility_page.py: begin -->"
END = "<!-- end of refusals -->"
_FILE = re.compile(r"(?:[\w=.-]*/)*\.?[\w-]+_[\w.-]+\.(?:parquet|orc|lance|log\.[\w-]+)")
_FOLDER = re.compile(r"/var/[^\s,]+")
_MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A kind of table that is refused: what it is, why, and how to make one in a folder and read it."""

    what: str
    why: str
    read: Callable[[Path], object]


def error_of(refusal: Refusal) -> UnsupportedTableError:
    """The error.

    Raises:
        AssertionError: the table is not refused.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            refusal.read(Path(folder) / "table")
        except UnsupportedTableError as error:
            return error
    raise AssertionError(f"{refusal.what}: it is read")


def _shown(error: UnsupportedTableError) -> str:
    """The message without the names of files, and without the end of long lists."""
    text = _FILE.sub("FILE", _FOLDER.sub("FOLDER", str(error)))
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS].rpartition(', ')[0]}, …"


def _rows(table: HudiTable) -> object:
    return table.snapshot().to_table()


def _table(folder: Path, *, version: int = 9, fields: Any = None, row: Any = None, **options: str) -> TableWriter:
    """A table with one row; ``options`` are its properties with ``_`` for each dot."""
    given: dict[str, Any] = {} if fields is None else {"fields": fields}
    properties = {name.replace("_", "."): value for name, value in options.items()}
    writer = TableWriter(folder=folder, version=version, options=properties, **given).create()
    writer.base_file(at(1), [row or {"id": "a", "ts": 1, "value": "x"}])
    writer.commit(at(1))
    return writer


def _with_properties(version: int = 9, **options: str) -> Callable[[Path], object]:
    return lambda folder: _rows(_table(folder, version=version, **options).open())


def _with_type(avro: Any) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        fields = (("id", "string"), ("ts", "long"), ("value", avro))
        writer = TableWriter(folder=folder, fields=fields).create()
        writer.commit(at(1))
        return _rows(writer.open())

    return read


def _with_log(*blocks: Callable[[TableWriter], bytes], **options: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        writer = _table(folder, version=9, **options)
        writer.log_file(at(2), [block(writer) for block in blocks])
        writer.commit(at(2))
        return _rows(writer.open())

    return read


def _with_log_version(version: int) -> Callable[[TableWriter], bytes]:
    def block(writer: TableWriter) -> bytes:
        whole = writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "y"}])
        # The version comes after the magic and the size of the block.
        position = len(MAGIC) + 8
        return whole[:position] + version.to_bytes(4, "big") + whole[position + 4 :]

    return block


def _time_before_midnight(folder: Path) -> object:
    time = {"type": "int", "logicalType": "time-millis"}
    writer = _table(folder, fields=(*KEY_AND_VALUE, ("time", time)), row={"id": "a", "ts": 1, "time": dt.time(1)})
    block = writer.data_block(at(2), [{"id": "a", "ts": 2, "time": -1}])
    writer.log_file(at(2), [block])
    writer.commit(at(2))
    return _rows(writer.open())


def _command(writer: TableWriter) -> bytes:
    del writer
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: at(2),
        HeaderKey.TARGET_INSTANT_TIME: at(1),
        HeaderKey.COMMAND_BLOCK_TYPE: "7",
    }
    return log_block(BlockType.COMMAND, b"", header)


def _blobs_in_a_later_format(folder: Path) -> object:
    shutil.copytree(golden_blobs() / "lance_120" / "table", folder)
    file = next(folder.glob("*.lance"))
    rows = LanceFileReader(str(file)).read_all().to_table()
    file.unlink()
    with LanceFileWriter(str(file), rows.schema, version="2.1") as writer:
        writer.write_batch(rows)
    return _rows(HudiTable.open(folder))


def _golden(query: GoldenQuery) -> Callable[[Path], object]:
    return lambda _: _rows(HudiTable.open(query.table))


def _with_native_log(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        writer = _table(folder)
        (folder / name).write_bytes(b"")
        return _rows(writer.open())

    return read


_ROW = {"id": "a", "ts": 2, "value": "y"}


def _lsm_tree(log: Callable[[TableWriter], object], **options: str) -> Callable[[Path], object]:
    return lambda folder: _rows(_lsm_table(folder, log, **options))


def _lsm_table(folder: Path, log: Callable[[TableWriter], object] | None = None, **options: str) -> HudiTable:
    writer = _table(folder, version=10, **{"hoodie.table.storage.layout": "lsm_tree"}, **options)
    if log is not None:
        log(writer)
        writer.commit(at(2))
    return HudiTable.open(str(folder), options={READ_UNRELEASED_KEY: "true"})


def _with_bootstrap_index_of_another_class(folder: Path) -> object:
    shutil.copytree(_BOOTSTRAPPED.table, folder)
    with (folder / ".hoodie" / "hoodie.properties").open("a") as file:
        file.write("hoodie.bootstrap.index.class=com.acme.OtherIndex\n")
    return _rows(HudiTable.open(str(folder)))


def _blob_elsewhere(folder: Path) -> object:
    reference = {"external_path": "/data/file.bin", "offset": None, "length": None, "managed": None}
    blob = {
        "type": "record",
        "name": "Blob",
        "fields": [
            {"name": "type", "type": "string"},
            {"name": "data", "type": ["null", "bytes"]},
            {
                "name": "reference",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "Reference",
                        "fields": [
                            {"name": "external_path", "type": ["null", "string"]},
                            {"name": "offset", "type": ["null", "long"]},
                            {"name": "length", "type": ["null", "long"]},
                            {"name": "managed", "type": ["null", "boolean"]},
                        ],
                    },
                ],
            },
        ],
    }
    row = {"id": "a", "ts": 1, "value": {"type": "OUT_OF_LINE", "data": None, "reference": reference}}
    _table(folder, fields=(("id", "string"), ("ts", "long"), ("value", blob)), row=row)
    return _rows(HudiTable.open(folder, options={BLOB_SOURCE_KEY: "/other"}))


def _time_of_no_zone(folder: Path) -> object:
    time = {"type": "long", "logicalType": "timestamp-micros"}
    fields = (("id", "string"), ("ts", "long"), ("value", time))
    writer = _table(folder, fields=fields, row={"id": "a", "ts": 1, "value": -(10**16)})
    (path,) = folder.glob("*.parquet")
    stored = pq.read_table(path)
    pq.write_table(stored.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}), path)
    return _rows(writer.open())


def _incremental_without_meta_columns(folder: Path) -> object:
    writer = _table(folder, hoodie_populate_meta_fields="false")
    return writer.open().incremental("earliest").to_table()


def _without_schema(folder: Path) -> object:
    writer = TableWriter(folder=folder, options={"hoodie.table.base.file.format": "ORC"}).create()
    (writer.folder / f"f1-0_0-1-1_{at(1)}.orc").write_bytes(b"ORC")
    (writer.timeline_folder / f"{at(1)}_{at(2)}.deltacommit").write_bytes(b"")
    return _rows(writer.open())


_ORC_TIMES = next(query for query in golden_base_formats() if query.case == "orc_times")
_BOOTSTRAPPED = next(query for query in golden_bootstrapped() if query.case == "tests_of_hudi")
_NODE = {
    "type": "record",
    "name": "node",
    "fields": [{"name": "next", "type": ["null", "node"], "default": None}],
}

REFUSALS = (
    Refusal(
        what="Table version before 5, or 7",
        why="there is no golden table of them",
        read=_with_properties(version=4),
    ),
    Refusal(
        what="Table version 10",
        why="no release writes it; [read by option](#table-version-10)",
        read=_with_properties(version=10),
    ),
    Refusal(
        what="Native log file in a table before version 10, or in an unknown format",
        why="no release writes them",
        read=_with_native_log(f"f1-0_0-1-1_{at(1)}_1.log.parquet"),
    ),
    Refusal(
        what="Another table format below Hudi's timeline",
        why="files are listed in another way",
        read=_with_properties(hoodie_table_format="iceberg"),
    ),
    Refusal(
        what="LSM trees before table version 10",
        why="Hudi writes none",
        read=_with_properties(hoodie_table_storage_layout="lsm_tree"),
    ),
    Refusal(
        what="Log file of an LSM tree that is not a native one in Parquet",
        why="Hudi's reader of LSM trees takes no other by default",
        read=_lsm_tree(lambda writer: writer.log_file(at(2), [writer.data_block(at(2), [_ROW])])),
    ),
    Refusal(
        what="Partial updates in an LSM tree",
        why="Hudi's reader of LSM trees merges whole rows",
        read=_lsm_tree(lambda writer: writer.native_log(at(2), [_ROW], only=["id", "value"])),
    ),
    Refusal(
        what="LSM tree with a payload or a merger, Hudi's or your own",
        why="Hudi asks it about base rows as about log records",
        read=_lsm_tree(
            lambda writer: writer.native_log(at(2), [_ROW]),
            hoodie_record_merge_mode="CUSTOM",
            hoodie_compaction_payload_class="org.apache.hudi.common.model.PartialUpdateAvroPayload",
        ),
    ),
    Refusal(
        what="History of a record (`hudi-bridge trace`) in an LSM tree",
        why="its verdicts are those of the usual merge",
        read=lambda folder: history_of(_lsm_table(folder), "a"),
    ),
    Refusal(
        what="Timeline layout of another version",
        why="a table that was upgraded or downgraded in part",
        read=_with_properties(hoodie_timeline_layout_version="1"),
    ),
    Refusal(
        what="Copy-on-write table with delta commits, or logs with more than rollbacks",
        why="Hudi passes over them, and so loses rows",
        read=_with_properties(hoodie_table_type="COPY_ON_WRITE"),
    ),
    Refusal(
        what="Table without a schema in any commit, in its properties or in a Parquet or log file",
        why="Hudi reads it as an empty table",
        read=_without_schema,
    ),
    Refusal(
        what="Several formats of base files in one table",
        why="nothing says which slice has which",
        read=_with_properties(hoodie_table_multiple_base_file_formats_enable="true"),
    ),
    Refusal(
        what="Base files of another format",
        why="Hudi has no others",
        read=_with_properties(hoodie_table_base_file_format="AVRO"),
    ),
    Refusal(
        what="Log files of another format",
        why="Hudi has no others",
        read=_with_properties(hoodie_table_log_file_format="PARQUET"),
    ),
    Refusal(
        what="Bootstrapped table with another index, or none",
        why="it does not say which files have the rows",
        read=_with_bootstrap_index_of_another_class,
    ),
    Refusal(
        what="Bootstrapped table without leave to read its source",
        why="a table could name any folder; [read by option](special-tables.md#bootstrapped-tables)",
        read=_golden(_BOOTSTRAPPED),
    ),
    Refusal(
        what="Reference of a BLOB to another folder",
        why="a row could name any file; [read by option](types.md#types-of-hudi-12)",
        read=_blob_elsewhere,
    ),
    Refusal(
        what="BLOB column of Lance base files that is not stored as in Hudi 1.2, without leave to give the bytes",
        why="what Hudi's references into such a file would be is not known; "
        "[read by option](types.md#types-of-hudi-12)",
        read=_blobs_in_a_later_format,
    ),
    Refusal(
        what="Times in ORC",
        why="their values depend on the writer's time zone, which PyArrow does not tell",
        read=_golden(_ORC_TIMES),
    ),
    Refusal(
        what="Times before 1900 in the calendar of Spark 2, whose time zone is not known",
        why="Spark takes that of the machine; [others are read](types.md#dates-before-1582)",
        read=_time_of_no_zone,
    ),
    Refusal(
        what="Payload that Hudi does not ship",
        why="its rule is in Java; [write it in Python](payloads.md)",
        read=_with_properties(version=6, hoodie_compaction_payload_class="com.acme.Counter"),
    ),
    Refusal(
        what="Payloads that let the first or the lowest value win",
        why="Hudi ships them with some releases only; [write them in Python](payloads.md)",
        read=_with_properties(
            version=6, hoodie_compaction_payload_class="org.apache.hudi.common.model.FirstValueAvroPayload"
        ),
    ),
    Refusal(
        what="Records with equal ordering values of which the older one wins",
        why="there is no golden table of it",
        read=_with_properties(hoodie_payload_update_on_same_ordering_field="false"),
    ),
    Refusal(
        what="Merge strategy that is not one of Hudi's",
        why="its rule is in Java; [write it in Python](payloads.md#a-record-merger-of-your-own)",
        read=_with_properties(
            hoodie_record_merge_mode="CUSTOM",
            hoodie_record_merge_strategy_id="6d3f0c1e-52a4-4f0b-9a55-0e6b2f7a1c11",
        ),
    ),
    Refusal(
        what="Partial update mode that is not one of Hudi's",
        why="which fields win is not known",
        read=_with_properties(hoodie_table_partial_update_mode="NEWEST"),
    ),
    Refusal(
        what="Partial updates in a table with a partial update mode",
        why="no release writes both, and Hudi merges otherwise from the first of them on",
        read=_with_log(
            lambda writer: writer.data_block(at(2), [{"id": "a", "ts": 2}], only=("id", "ts")),
            hoodie_table_partial_update_mode="IGNORE_DEFAULTS",
        ),
    ),
    Refusal(
        what="Ordering field that has no order",
        why="its values cannot be compared",
        read=lambda folder: _rows(
            _table(
                folder,
                fields=(("id", "string"), ("ts", {"type": "array", "items": "long"})),
                row={"id": "a", "ts": [1]},
            ).open()
        ),
    ),
    Refusal(
        what="Log format version 0",
        why="there is no golden table of it",
        read=_with_log(_with_log_version(0)),
    ),
    Refusal(
        what="Command block with another command",
        why="Hudi writes none but rollbacks",
        read=_with_log(_command),
    ),
    Refusal(
        what="Avro schema that contains itself",
        why="Arrow has no such type",
        read=_with_type(_NODE),
    ),
    Refusal(
        what="Logical type that Avro 1.11 and Hudi do not have",
        why="its values could mean something else",
        read=_with_type({"type": "long", "logicalType": "hudi-lunar-day"}),
    ),
    Refusal(
        what="Time of day before midnight in a log file",
        why="Flink makes such times of moments before 1970; Arrow has none",
        read=_time_before_midnight,
    ),
    Refusal(
        what="Decimals of more than 76 digits",
        why="Arrow has none",
        read=_with_type({"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 0}),
    ),
    Refusal(
        what="VARIANT that is shredded in the schema of the table",
        why="Hudi shreds in files alone",
        read=_with_type(
            {
                "type": "record",
                "name": "variant",
                "logicalType": "variant",
                "fields": [{"name": name, "type": "bytes"} for name in ("metadata", "value", "typed_value")],
            }
        ),
    ),
    Refusal(
        what="Incremental query to a table without meta columns",
        why="rows do not say which commit wrote them",
        read=_incremental_without_meta_columns,
    ),
)


ELSEWHERE = {
    "payload": "above, and docs/payloads.md: a payload where a merger belongs",
    "history of a record": "docs/payloads.md",
    "completion times": "docs/incremental-and-changes.md, about the option for them",
    "partial update": "docs/payloads.md",
    "record merger": "docs/payloads.md",
    "changelog": "docs/table-properties.md",
    "HFile base file": "docs/special-tables.md",
    "HFile log file": "docs/unsupported.md, about table version 10",
    "column of an ORC log file": "docs/unsupported.md, about table version 10",
    "HFile compression": "beside the table of refusals",
    "HFile version": "beside the table of refusals",
    "class in a delete block": "beside the table of refusals",
    "external files": "docs/special-tables.md",
    "Parquet encryption": "docs/special-tables.md",
    "size of a BLOB": "beside the table of refusals",
    "size of a log block": "beside the table of refusals",
    "size of log records": "beside the table of refusals",
    "size of rows": "beside the table of refusals",
    "log block": "beside the table of refusals",
    "log block type": "beside the table of refusals",
    "version of Avro log block content": "beside the table of refusals",
    "delete block version": "beside the table of refusals",
    "log format": "beside the table of refusals",
    "codec of an Avro container": "beside the table of refusals",
    "default": "beside the table of refusals",
    "VECTOR": "beside the table of refusals",
    "type in a schema with column ids": "beside the table of refusals",
    "record key": "beside the table of refusals",
    "metadata table": "the command metadata, docs/command-line.md",
    "log block to decode by its layout": "Trino's --unmerged, docs/trino-views.md",
}
"""What else an ``UnsupportedTableError`` can be about, and where that is said."""


def section() -> str:
    """What stands between the marks of the page."""
    lines = [BEGIN, "| what | why | the error |", "| --- | --- | --- |"]
    for refusal in REFUSALS:
        message = _shown(error_of(refusal)).removeprefix("unsupported ").replace("|", "\\|")
        lines.append(f"| {refusal.what} | {refusal.why} | `{message}` |")
    return "\n".join([*lines, END])
