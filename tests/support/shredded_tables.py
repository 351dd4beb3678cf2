"""Tables whose files are the golden ones with shredded VARIANT columns, and what Spark and DuckDB read from these."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from hudi_bridge import HudiTable
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from tests.logformat.log_writer import log_block
from tests.support.golden_cases import golden_shredded
from tests.support.table_writer import TableWriter, at

KNOWS_VARIANT = int(duckdb.__version__.partition(".")[0]) > 1
"""Whether DuckDB takes VARIANT from Arrow; up to 1.5, it takes the struct of the parts."""
FILES = golden_shredded()
NAMES = sorted(path.stem for path in FILES.glob("*.parquet"))
VARIANT = {
    "type": "record",
    "name": "variant",
    "logicalType": "variant",
    "fields": [{"name": name, "type": "bytes"} for name in ("metadata", "value")],
}
FIELDS = (("id", "string"), ("ts", "long"), ("v", VARIANT))
UNRELEASED = {"hudi_bridge.read.unreleased": "true"}
PLAIN = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x07"}
"""The number 7."""


def created(folder: Path, **given: Any) -> TableWriter:
    """A table without meta columns, whose files can be the golden ones as they are."""
    options = {"hoodie.populate.meta.fields": "false", **given.pop("options", {})}
    return TableWriter(folder=folder, fields=given.pop("fields", FIELDS), options=options, **given).create()


def with_base(folder: Path, name: str, **given: Any) -> TableWriter:
    """A table whose base file is a golden one."""
    table = created(folder, **given)
    copied = table.partition("") / f"f1-0_0-1-1_{at(1)}.parquet"
    shutil.copyfile(FILES / f"{name}.parquet", copied)
    table.commit(at(1), wrote=[copied])
    return table


def in_block(folder: Path, name: str) -> TableWriter:
    """The rows in a Parquet block of a log."""
    table = created(folder)
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: at(1), HeaderKey.SCHEMA: json.dumps(table.avro_schema)}
    block = log_block(BlockType.PARQUET_DATA, (FILES / f"{name}.parquet").read_bytes(), header)
    table.commit(at(1), wrote=[table.log_file(at(1), [block])])
    return table


def in_native_log(folder: Path, name: str) -> TableWriter:
    """The rows in a log file that is a Parquet file."""
    table = created(folder, version=10)
    path = table.partition("") / f"f1-0_0-1-1_{at(1)}_1.log.parquet"
    header = {"VERSION": "1", "INSTANT_TIME": at(1), "SCHEMA": json.dumps(table.avro_schema)}
    rows = pq.read_table(FILES / f"{name}.parquet")
    pq.write_table(rows.replace_schema_metadata({f"hudi.log.format.{key}": text for key, text in header.items()}), path)
    table.commit(at(1), wrote=[path])
    return table


FORMS = {"base": with_base, "block": in_block, "native": in_native_log}


def opened(table: TableWriter) -> HudiTable:
    return HudiTable.open(str(table.folder), options=UNRELEASED if table.version > 9 else {})


def seen(name: str, engine: str) -> dict[str, Any]:
    """What Spark or DuckDB reads: JSON and a type for each id."""
    document: Mapping[str, Any] = json.loads((FILES / f"{name}.json").read_text())
    return {key: answers[engine] for key, answers in document.items() if engine in answers}
