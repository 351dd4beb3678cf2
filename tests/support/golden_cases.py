"""The golden tables, written by real Hudi, with the answers that Hudi itself gave (see tests/golden/README.md).

Each version of an archive is unpacked once, into ``.cache/golden`` of the checkout, for all test processes and runs.
Tests that change a table make a copy.
"""

import datetime as dt
import fcntl
import hashlib
import json
import lzma
import operator
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, reduce
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

PACKAGE = Path(__file__).parents[2] / "hudi_bridge"
ARCHIVES = Path(__file__).parents[1] / "golden"
CACHE = Path(__file__).parents[2] / ".cache" / "golden"
ROW_KINDS = ("snapshot", "read_optimized", "time_travel", "snapshot_filtered", "incremental")
"""The kinds of query that ask for rows of the table."""
CHANGE_KINDS = ("cdc",)
"""The kind of query that asks for changes."""
T = TypeVar("T")
CONDITIONS = ("filter", "where", "expression", "duckdb")
"""The options of a filtered snapshot that are not Hudi's."""

OPERATORS = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
Comparison = tuple[str, str, Any]
"""A column, one of ``= < > <= >=``, and a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenQuery:
    """One query of a golden table, and Hudi's answer.

    ``index`` is its number within the case. ``answer`` is a file of the rows that Hudi returned: the release that wrote
    the table, or, if that failed with ``hudi_error``, a later release; None if that failed too.
    """

    case: str
    index: int
    kind: str
    table: Path
    options: Mapping[str, Any]
    answer: Path | None
    hudi_error: str | None

    @classmethod
    def of(cls, table: Path, kind: str, options: Mapping[str, Any]) -> "GoldenQuery":
        """The query of these options, for a reader that is not to see the answer."""
        return cls(case="", index=0, kind=kind, table=table, options=options, answer=None, hudi_error=None)

    @property
    def name(self) -> str:
        """The name that pytest shows."""
        return f"{self.case}-{self.index}-{self.kind}"

    @property
    def as_of(self) -> str | None:
        """The instant of a time travel, None for the newest."""
        return self.options.get("as.of.instant")

    @property
    def after(self) -> str:
        """Where a query for changes begins."""
        begin: str = self.options["hoodie.datasource.read.begin.instanttime"]
        return begin

    @property
    def up_to(self) -> str | None:
        """Where a query for changes ends, None for the newest instant."""
        return self.options.get("hoodie.datasource.read.end.instanttime")

    @property
    def reader_options(self) -> Mapping[str, str]:
        """The options of Hudi's data source."""
        return {name: value for name, value in self.options.items() if name not in CONDITIONS}

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The conditions of a filtered snapshot, joined by AND; those of group K are text instead."""
        return tuple((column, operator, value) for column, operator, value in self.options.get("filter", ()))

    @property
    def expression(self) -> pc.Expression | None:
        """The condition of a filtered snapshot, for Arrow."""
        if "expression" in self.options:
            names = {"pa": pa, "pc": pc, "dt": dt, "Decimal": Decimal}
            expression: pc.Expression = eval(self.options["expression"], names)
            return expression
        compared = [OPERATORS[sign](pc.field(column), value) for column, sign, value in self.comparisons]
        return reduce(operator.and_, compared) if compared else None

    def passing(self, rows: pa.Table) -> pa.Table:
        """The rows that meet the condition, as Arrow says."""
        condition: Any = self.expression
        # Of two values, Python compares the expressions.
        condition = pc.scalar(condition) if isinstance(condition, bool) else condition
        return rows if condition is None else ds.dataset(rows).to_table(filter=condition)

    @property
    def where_in_spark(self) -> str:
        """The condition in Spark's SQL."""
        compared = [f"`{column}` {sign} {value!r}" for column, sign, value in self.comparisons]
        return self.options.get("where") or " AND ".join(compared) or "true"

    @property
    def where_in_duckdb(self) -> str:
        """The condition in DuckDB's SQL."""
        compared = [f'"{column}" {sign} {_literal(value)}' for column, sign, value in self.comparisons]
        return self.options.get("duckdb") or " AND ".join(compared) or "true"

    @property
    def where_in_trino(self) -> str:
        """The condition in Trino's SQL, which differs from DuckDB's in times, bytes and the length of lists."""
        text = re.sub(r"timestamptz '(.*?)\+00'", r"timestamp '\1 UTC'", self.where_in_duckdb)
        text = re.sub(r"'((?:\\x[0-9a-f]{2})+)'::blob", lambda found: "X'" + found[1].replace("\\x", "") + "'", text)
        return re.sub(r"\blen\(", "cardinality(", text)


def spread(items: Sequence[T], most: int) -> Sequence[T]:
    """So many of the items at the most, with equal distances; the first one is among them."""
    return items[:: max(1, ceil(len(items) / most))]


def golden_group(name: str) -> str:
    """The group of a case, which is the name of its archive; names in group K begin with letters from j to r."""
    return "k" if "j" <= name[0] <= "r" else name[0]


def golden_case(name: str) -> Path:
    """The folder of a case: ``case.json``, ``table`` and ``expected``."""
    return _unpacked(ARCHIVES / f"{golden_group(name)}.tar.xz") / name


def golden_table(name: str) -> Path:
    """The folder of a case's table."""
    return golden_case(name) / "table"


def golden_history(name: str) -> Path:
    """The folder of a random history: ``table``, ``steps.json`` and ``states.parquet`` (see golden/histories.py)."""
    return _unpacked(ARCHIVES / "histories.tar.xz") / name


def golden_change_data(name: str) -> Path:
    """The folder of a table of all types with change data capture (see golden/change_data.py)."""
    return _unpacked(ARCHIVES / "change_data.tar.xz") / name


def golden_payload_tables() -> list[Path]:
    """The folders of random writes under payloads: ``table``, and ``answers`` by instant (see golden/payloads.py)."""
    return sorted(_unpacked(ARCHIVES / "payloads.tar.xz").iterdir())


def golden_log_versions() -> list[Path]:
    """The folders of sequences of log versions: ``table``, and ``answers`` by release (see golden/log_versions.py)."""
    return sorted(_unpacked(ARCHIVES / "log_versions.tar.xz").iterdir())


def golden_bootstrapped() -> tuple[GoldenQuery, ...]:
    """The queries of bootstrapped tables, with ``source`` beside each table (see golden/bootstrap.py)."""
    return _asked("bootstrap")


def golden_base_formats() -> tuple[GoldenQuery, ...]:
    """The queries of tables whose base files are not Parquet (see golden/base_formats.py)."""
    return _asked("base_formats")


def golden_read_options() -> tuple[GoldenQuery, ...]:
    """The queries with options that change rows, to tables of all archives (see golden/read_options.py)."""
    return tuple(
        query if query.table.exists() else replace(query, table=golden_table(query.case))
        for query in _asked("read_options")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureAnswer:
    """What a procedure of Hudi showed of a golden table, as rows by column; no rows if it failed with ``error``."""

    case: str
    table: Path
    release: str
    procedure: str
    arguments: Mapping[str, Any]
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    error: str | None


@cache
def golden_procedures() -> tuple[ProcedureAnswer, ...]:
    """What Hudi's procedures show of some golden tables (see golden/procedures.py)."""
    bootstrapped = {query.case: query.table for query in golden_bootstrapped()}
    return tuple(
        ProcedureAnswer(
            case=answer["table"],
            table=bootstrapped.get(answer["table"]) or golden_table(answer["table"]),
            release=answer["release"],
            procedure=answer["procedure"],
            arguments=answer["arguments"],
            columns=answer.get("columns", ()),
            rows=[dict(zip(answer["columns"], row, strict=True)) for row in answer.get("rows", ())],
            error=answer.get("error"),
        )
        for answer in _procedures()["answers"]
    )


def names_of_procedures() -> Mapping[str, Sequence[str]]:
    """The procedures of Hudi that show something, by release."""
    names: Mapping[str, Sequence[str]] = _procedures()["names"]
    return names


@cache
def _procedures() -> Any:
    return json.loads(lzma.decompress((ARCHIVES / "procedures.json.xz").read_bytes()))


def golden_nested() -> tuple[GoldenQuery, ...]:
    """The queries of tables of nested types and of names of fields (see golden/nested.py)."""
    return _asked("nested")


def golden_external() -> tuple[GoldenQuery, ...]:
    """The queries of tables of files that other writers than Hudi made (see golden/external.py)."""
    return _asked("external")


def golden_rust_writer() -> tuple[GoldenQuery, ...]:
    """The queries of tables that hudi-rs 0.6 wrote (see golden/rust_writer.py)."""
    return _asked("rust_writer")


def golden_flink(release: str) -> tuple[GoldenQuery, ...]:
    """The queries of tables that Flink wrote, as a release of Hudi on Spark answered them (see golden/flink.py)."""
    return _asked("flink", f"answers_{release}")


def golden_java_client(release: str) -> tuple[GoldenQuery, ...]:
    """The queries of tables that Hudi's Java client wrote, as a release answered them (see golden/java_client.py)."""
    return _asked("java_client", f"answers_{release}")


def _asked(archive: str, answers: str = "answers") -> tuple[GoldenQuery, ...]:
    folders = sorted(_unpacked(ARCHIVES / f"{archive}.tar.xz").iterdir())
    return tuple(
        GoldenQuery(
            case=folder.name,
            index=index,
            kind=query["kind"],
            table=folder / "table",
            options=query["options"],
            answer=folder / answers / query["rows"] if "rows" in query else None,
            hudi_error=query.get("error"),
        )
        for folder in folders
        if (folder / f"{answers}.json").exists()
        for index, query in enumerate(json.loads((folder / f"{answers}.json").read_text()))
    )


def golden_merger_table(name: str = "highest_score_120") -> Path:
    """The folder of a table with a merge strategy of its own: ``table``, ``answers`` (see golden/mergers.py)."""
    return _unpacked(ARCHIVES / "mergers.tar.xz") / name


def golden_random_tables() -> list[Path]:
    """The folders of random tables that have shown a fault, or a difference that is none (see tests/random)."""
    return sorted(_unpacked(ARCHIVES / "random.tar.xz").iterdir())


def golden_blobs() -> Path:
    """The folder of tables with BLOBs, and of the files that references are to (see golden/blobs.py)."""
    return _unpacked(ARCHIVES / "blobs.tar.xz")


def golden_trips() -> Path:
    """The folder of the sample tables of the package, the ``trips`` of README and docs (see golden/samples.py)."""
    return _unpacked(PACKAGE / "samples" / "tables.zip")


def golden_variant_queries() -> tuple[GoldenQuery, ...]:
    """The queries of tables with a VARIANT column, which each engine shows in its own way."""
    folders = sorted(_unpacked(ARCHIVES / "variants.tar.xz").iterdir())
    documents = [(folder, json.loads((folder / "case.json").read_text())) for folder in folders]
    return tuple(
        _query(folder, document, index, query)
        for folder, document in documents
        for index, query in enumerate(document["queries"])
    )


def golden_shredded() -> Path:
    """The folder of Parquet files with shredded VARIANT columns, and of what others read (see golden/shredded.py)."""
    return _unpacked(ARCHIVES / "shredded.zip")


def golden_queries(kinds: Sequence[str] = ROW_KINDS) -> tuple[GoldenQuery, ...]:
    """The queries of these kinds, of all tables."""
    return tuple(
        _query(golden_case(document["name"]), document, index, query)
        for document in _documents()
        for index, query in enumerate(document["queries"])
        if query["kind"] in kinds
    )


def hand_written_rows(name: str) -> tuple[list[str], list[list[Any]]]:
    """The columns and rows, worked out by hand, of a snapshot that Hudi could not read."""
    (answer,) = json.loads((golden_case(name) / "case.json").read_text())["expected_by_hand"]
    return answer["columns"], answer["rows"]


@cache
def _documents() -> tuple[dict[str, Any], ...]:
    folders = [
        folder for archive in sorted(ARCHIVES.glob("?.tar.xz")) for folder in sorted(_unpacked(archive).iterdir())
    ]
    return tuple(json.loads((folder / "case.json").read_text()) for folder in folders)


def _query(folder: Path, document: Mapping[str, Any], index: int, query: Mapping[str, Any]) -> GoldenQuery:
    answer = query["expected"] or query.get("alt_expected")
    return GoldenQuery(
        case=document["name"],
        index=index,
        kind=query["kind"],
        table=folder / document["table"],
        options=document["reader_options"] | query["options"],
        answer=folder / answer if answer else None,
        hudi_error=query.get("oracle_error"),
    )


def _literal(value: Any) -> str:
    return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else str(value)


@cache
def _unpacked(archive: Path) -> Path:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    target = CACHE / f"{archive.name.partition('.')[0]}-{digest}"
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        # One process unpacks while the others wait; the rename makes the complete folder appear at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            part = Path(tempfile.mkdtemp(dir=CACHE, prefix="part-"))
            try:
                if archive.suffix == ".zip":
                    shutil.unpack_archive(archive, part)
                else:
                    with tarfile.open(archive) as tar:
                        tar.extractall(part, filter="data")
                part.rename(target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return target
