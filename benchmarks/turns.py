"""Measures cases: answers are compared first, then the readers take turns."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.contenders import Contender
from benchmarks.reader_process import ReadFailedError
from benchmarks.readings import OURS, REFUSED, SAME, STALE, WRONG, Line, Reading
from benchmarks.scenarios import Delivery, Read
from benchmarks.store import Store
from benchmarks.suite import Case

SLOW_SECONDS = 10
"""A read that has taken longer is not repeated."""


def measure(
    case: Case, table: Path, contenders: Sequence[Contender], rounds: int, store: Store, reads: Sequence[Read]
) -> list[Line]:
    """The lines of some reads of a case; the first of the readers is hudi-bridge.

    Raises:
        ReadFailedError: hudi-bridge has failed; whatever others do is said in their lines.
    """
    path = store.uri(table) if case.is_far else str(table)
    counting = store if case.is_far else None
    return [line for read in reads for line in _lines(case, path, read, contenders, rounds, counting)]


def _lines(
    case: Case, path: str, read: Read, contenders: Sequence[Contender], rounds: int, store: Store | None
) -> list[Line]:
    taking_part = [one for one in contenders if one.takes_part(read)]
    lines = _checked(case, path, read, taking_part)
    for _ in range(rounds):
        for one in taking_part:
            line = lines[one.name]
            if line.answer in (SAME, STALE) and not _is_enough(one, line):
                lines[one.name] = _with_reading(line, one, path, read, store)
    return list(lines.values())


def _checked(case: Case, path: str, read: Read, contenders: Sequence[Contender]) -> dict[str, Line]:
    """What answers are worth, by reader."""
    lines: dict[str, Line] = {}
    expected: dict[str, Any] | None = None
    for one in contenders:
        rows = None
        try:
            if one.reads_base_files:
                one.time(path, read)
                verdict = STALE
            else:
                answer = one.check(path, read)
                expected = expected or answer
                verdict, rows = _verdict(answer, expected), answer["rows"]
        except ReadFailedError as error:
            if one.name == OURS:
                raise
            verdict = f"{REFUSED}: {error}"
        lines[one.name] = Line(case=case.name, read=read.name, reader=one.name, answer=verdict, rows=rows)
    return lines


def _is_enough(contender: Contender, line: Line) -> bool:
    found = line.readings
    return len(found) == contender.most_rounds or bool(found and found[-1].seconds > SLOW_SECONDS)


def _with_reading(line: Line, contender: Contender, path: str, read: Read, store: Store | None) -> Line:
    """The line with one more reading, or with what has gone wrong."""
    try:
        reading, rows = _timed(contender, path, read, store)
    except ReadFailedError as error:
        return replace(line, answer=f"{REFUSED}: {error}")
    is_whole = rows is not None and read.delivery is not Delivery.FIRST_BATCH
    if is_whole and line.rows is not None and rows != line.rows:
        return replace(line, answer=f"{WRONG}: {rows:,} rows when timed, {line.rows:,} when checked")
    return replace(line, rows=rows if is_whole else line.rows, readings=(*line.readings, reading))


def _timed(contender: Contender, path: str, read: Read, store: Store | None) -> tuple[Reading, int | None]:
    if store is not None:
        store.reset()
    measured = contender.time(path, read)
    rows: int | None = measured.pop("rows")
    if store is not None:
        counted = store.counted()
        measured |= {"read_bytes": counted.sent_bytes, "requests": sum(counted.requests.values())}
    return Reading(**measured), rows


def _verdict(answer: dict[str, Any], expected: dict[str, Any]) -> str:
    for key in ("rows", "columns", "checksum"):
        if answer[key] != expected[key]:
            shown = "" if key == "checksum" else f", {_shown(answer[key])} for {_shown(expected[key])}"
            return f"{WRONG}: other {key if key != 'checksum' else 'values'}{shown}"
    return SAME


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(len(value) if isinstance(value, list) else value)
