"""Asks Hudi about a random table: the questions are drawn, too, and the answers are kept as those of golden tables."""

import datetime as dt
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden.generate.answers import Reader
from tests.golden.generate.document import save
from tests.golden.generate.log_blocks import inventory
from tests.golden.generate.questions import AS_OF, BEGIN, COLUMNS, END, FORMAT, QUERY_TYPE, Question
from tests.golden.generate.releases import number
from tests.golden.generate.timeline import FIRST_VERSION_WITH_FOLDER, Instant, instants, properties, table_version
from tests.random.conditions import Condition, condition, literal, names_of, projection, values_of
from tests.random.draw import Draw
from tests.random.writing import TableWriter

FILTERS = 3
"""The conditions on each snapshot."""

_INSTANT = "%Y%m%d%H%M%S"


def later(instant: str, milliseconds: int = 1) -> str:
    """A time a little after an instant."""
    time = dt.datetime.strptime(instant[:14], _INSTANT) + dt.timedelta(milliseconds=int(instant[14:17] or 0))
    time += dt.timedelta(milliseconds=milliseconds)
    return time.strftime(_INSTANT) + f"{time.microsecond // 1000:03d}"


@dataclass(slots=True)
class Questions:
    """The questions to a table: about its instants, and then about what its snapshot has."""

    table: Draw
    instants: Sequence[Instant]
    version: int
    indexed: Sequence[str]
    chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(f"ask {self.table.release}/{self.table.seed}")

    @property
    def _is_10(self) -> bool:
        return number(self.table.release)[:2] == (1, 0)

    def about_instants(self) -> Iterator[Question]:
        """The snapshot, the read-optimized query, time travel and ranges."""
        chance = self.chance
        done = [
            instant
            for instant in self.instants
            if instant.state == "completed" and instant.action in ("commit", "deltacommit", "replacecommit")
        ]
        yield Question(kind="snapshot", options={}, stem="snapshot")
        yield Question(kind="read_optimized", options={QUERY_TYPE: "read_optimized"}, stem="read_optimized")
        for instant in chance.sample(done, min(2, len(done))):
            at = instant.requested if chance.random() < 0.75 else later(instant.requested, chance.choice([1, 400]))
            yield Question(kind="time_travel", options={AS_OF: at}, stem=f"as_of_{at}")
        if self.table.has_meta_fields and done:
            yield from self._ranges(done)

    def _ranges(self, done: Sequence[Instant]) -> Iterator[Question]:
        has_folder = self.version >= FIRST_VERSION_WITH_FOLDER
        times = sorted((instant.completed if has_folder else None) or instant.requested for instant in done)
        ranges = set()
        for _ in range(2):
            begin, end = sorted([self.chance.randrange(-1, len(times)), self.chance.randrange(len(times))])
            ranges.add((max(begin - (begin == end), -1), end))
        for index, (begin, end) in enumerate(sorted(ranges)):
            # Hudi 1.0 includes the begin.
            after = "000" if begin < 0 else later(times[begin]) if self._is_10 else times[begin]
            options = {QUERY_TYPE: "incremental", BEGIN: after}
            if end < len(times) - 1 or self.chance.random() < 0.5:
                options[END] = times[end]
            yield Question(kind="incremental", options=options | {FORMAT: "latest_state"}, stem=f"inc_{index}")
            if self.table.cdc and not self._is_10:  # which tells every second change only
                yield Question(kind="cdc", options=options | {FORMAT: "cdc"}, stem=f"cdc_{index}")

    def about_rows(self, snapshot: pa.Table) -> Iterator[Question]:
        """Filters and projections of the snapshot."""
        if not snapshot.num_rows:
            return
        drawn = [condition(self.chance, snapshot, self.table) for _ in range(FILTERS)]
        drawn += [self._on_index(snapshot, name) for name in self.indexed if name in snapshot.column_names]
        for index, chosen in enumerate(drawn):
            if chosen is not None:
                yield Question(kind="snapshot_filtered", options=chosen.options(), stem=f"filtered_{index}")
        paths = [list(path) for path in projection(self.chance, snapshot)]
        yield Question(kind="snapshot_columns", options={COLUMNS: paths}, stem="columns")

    def _on_index(self, snapshot: pa.Table, name: str) -> Condition | None:
        """A condition that a secondary index serves."""
        values = values_of(snapshot, (name,))
        value = literal(self.chance.choice(values), snapshot.schema.field(name).type) if values else None
        if value is None:
            return None
        column = names_of((name,))
        return Condition(
            f"{column.where} = {value.where}",
            f"{column.expression} == {value.expression}",
            f"{column.duckdb} = {value.duckdb}",
        )


def ask(writer: TableWriter) -> dict[str, Any]:
    """Asks all questions; writes ``expected`` and ``case.json`` beside the table, and returns the document."""
    table, path, folder = writer.table, writer.path, writer.folder
    (folder / "expected").mkdir(exist_ok=True)
    timeline, version = instants(path), table_version(path)
    questions = Questions(table, timeline, version, writer.progress.indexed)
    reader = Reader(spark=writer.spark, table=path, reader_options=table.reader_options)
    queries = [reader.answer(question, folder) for question in questions.about_instants()]
    if queries[0]["expected"]:
        snapshot = pq.read_table(folder / queries[0]["expected"])
        queries += [reader.answer(question, folder) for question in questions.about_rows(snapshot)]
    document = {
        "name": table.name,
        "covers": "drawn at random",
        "hudi_version": table.release,
        "oracle": f"hudi {table.release} on Spark {writer.spark.version}",
        "table_version": version or None,
        "table_type": table.table_type,
        "table": "table",
        "reader_options": table.reader_options,
        "instants": [instant.as_dict() for instant in timeline],
        "queries": queries,
        "properties": properties(path),
        "log_blocks": inventory(path),
        "steps": writer.progress.log,
        "drawn": table.as_json(),
    }
    shutil.rmtree(folder / "input", ignore_errors=True)
    for checksum in folder.rglob("*.crc"):
        checksum.unlink()
    save(json.loads(json.dumps(document, default=str)), folder)
    return document


def failures_of_hudi(document: Mapping[str, Any]) -> list[str]:
    """The questions that Hudi failed to answer, with what it said."""
    return [
        f"{query['kind']}: {query['oracle_error'].rpartition(' | ')[2]}"
        for query in document["queries"]
        if query["expected"] is None
    ]


def answer_of(folder: Path, query: Mapping[str, Any]) -> pa.Table | None:
    """Hudi's answer to a question, None if it failed."""
    return pq.read_table(folder / query["expected"]) if query["expected"] else None
