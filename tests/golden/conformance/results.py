"""What a reader said to the queries of the suite: judged, written as JSON, and shown by feature."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden.conformance.processes import Answer, NoRows, Reader, Verdict
from tests.golden.conformance.suite import KINDS, SUITE, TOPICS, features_of
from tests.support.compare import differences
from tests.support.golden_cases import GoldenQuery
from tests.support.golden_queries import Key

KEPT = Path(__file__).parents[1] / "readers" / "results"
"""What readers said, which the page on compatibility shows."""
_MOST_OF_A_DETAIL = 160


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and what it is based on, in lines."""

    verdict: Verdict
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a reader said to each query."""

    reader: str
    judgements: Mapping[Key, Judgement]

    def counts(self, keys: Collection[Key]) -> "Counter[Verdict]":
        """The verdicts on these queries, those that were put to the reader."""
        return Counter(judgement.verdict for key, judgement in self.judgements.items() if key in keys)

    def as_json(self) -> str:
        """The document: for each case the queries by verdict, each with the first line of why it is not equal."""
        cases: dict[str, dict[str, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
        for (case, index), judgement in sorted(self.judgements.items()):
            cases[case][judgement.verdict][index] = judgement.lines[0][:_MOST_OF_A_DETAIL] if judgement.lines else ""
        shown = {
            case: {
                verdict: list(details) if verdict == Verdict.EQUAL else details for verdict, details in verdicts.items()
            }
            for case, verdicts in cases.items()
        }
        lines = (f"  {json.dumps(case)}: {json.dumps(verdicts)}" for case, verdicts in shown.items())
        return f'{{\n "reader": {json.dumps(self.reader)},\n "cases": {{\n' + ",\n".join(lines) + "\n }\n}\n"

    def save(self, path: Path) -> None:
        """Writes the document; what the same reader said to other queries stays in it."""
        earlier = Result.load(path) if path.exists() else self
        judgements = {**(earlier.judgements if earlier.reader == self.reader else {}), **self.judgements}
        remaining = {key: judgement for key, judgement in judgements.items() if key in SUITE}
        path.write_text(Result(reader=self.reader, judgements=remaining).as_json())

    @classmethod
    def load(cls, path: Path) -> "Result":
        """What was written as JSON."""
        document: dict[str, Any] = json.loads(path.read_text())
        judgements: dict[Key, Judgement] = {}
        for case, verdicts in document["cases"].items():
            for verdict, queries in verdicts.items():
                details = dict.fromkeys(queries, "") if verdict == Verdict.EQUAL else queries
                for index, detail in details.items():
                    judgements[case, int(index)] = Judgement(Verdict(verdict), (detail,) if detail else ())
        return cls(reader=document["reader"], judgements=judgements)


def run(
    reader: Reader,
    queries: Iterable[GoldenQuery],
    *,
    ignored: Collection[str] = (),
    tell: Callable[[GoldenQuery, Judgement], None] = lambda *_: None,
) -> Result:
    """Puts queries to a reader; ``tell`` is told each judgement."""
    judgements: dict[Key, Judgement] = {}
    for query in queries:
        judgement = judge(query, reader.answer(query.table, query.kind, query.options), ignored)
        judgements[query.case, query.index] = judgement
        tell(query, judgement)
    return Result(reader=reader.name, judgements=judgements)


def judge(query: GoldenQuery, answer: Answer, ignored: Collection[str] = ()) -> Judgement:
    """Compares an answer with Hudi's, but for ``ignored`` columns.

    A query that Hudi refuses is to be refused: rows there are wrong.
    """
    if isinstance(answer, NoRows):
        if answer.verdict == Verdict.REFUSED and query.answer is None:
            return Judgement(Verdict.EQUAL)
        return Judgement(answer.verdict, (answer.detail.replace(str(query.table), "TABLE"),))
    if query.answer is None:
        return Judgement(Verdict.WRONG, (f"{answer.num_rows} rows, where Hudi says {query.hudi_error}",))
    try:
        lines = differences(_without(pq.read_table(query.answer), ignored), _without(answer, ignored))
    except (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError) as error:
        lines = [f"types that are not comparable: {type(error).__name__}: {error}"]
    return Judgement(Verdict.WRONG, tuple(lines)) if lines else Judgement(Verdict.EQUAL)


def _without(rows: pa.Table, ignored: Collection[str]) -> pa.Table:
    return rows.select([name for name in rows.column_names if name not in ignored]) if ignored else rows


def kept_results(name: str = "*") -> list[Result]:
    """The results that are kept, by the names of their files."""
    return [Result.load(path) for path in sorted(KEPT.glob(f"{name}.json"))]


def kinds_matrix(results: Sequence[Result]) -> list[list[str]]:
    """A row for each kind of query: its name, the number of queries, and what each reader makes of them."""
    rows = ((name, {key for key, query in SUITE.items() if query.kind == kind}) for kind, name in KINDS.items())
    return [[name, *cells] for name, keys in rows if (cells := _cells(keys, results))]


def features_matrix(results: Sequence[Result], kinds: Collection[str]) -> list[list[str]]:
    """A row for each feature: its topic, its name, the number of queries, and what each reader makes of them."""
    keys: dict[tuple[str, str], set[Key]] = defaultdict(set)
    for key, query in SUITE.items():
        if query.kind in kinds:
            for feature in features_of(query.case):
                keys[feature].add(key)
    return [
        [topic, name, *cells]
        for topic, name in sorted(keys, key=lambda feature: (TOPICS.index(feature[0]), feature[1]))
        if (cells := _cells(keys[topic, name], results))
    ]


def _cells(keys: Collection[Key], results: Sequence[Result]) -> list[str]:
    """How many queries were asked, and a cell for each reader; empty if none was asked."""
    asked = {key for result in results for key in result.judgements if key in keys}
    return [str(len(asked)), *(cell(result.counts(keys), len(asked)) for result in results)] if asked else []


def cell(counts: Mapping[Verdict, int], queries: int) -> str:
    """The counts of a cell, such as ``118, 3 wrong, 4 refused``: the first number are those that are equal.

    Of a reader that was asked fewer queries than others, it says how many.
    """
    asked = sum(counts.values())
    if not asked:
        return "not asked"
    equal = str(counts.get(Verdict.EQUAL, 0)) + (f" of {asked}" if asked < queries else "")
    others = (f"{counts[verdict]} {verdict}" for verdict in Verdict if verdict != Verdict.EQUAL and counts.get(verdict))
    return ", ".join([equal, *others])


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(row) + " |"


def text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table of aligned columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()
