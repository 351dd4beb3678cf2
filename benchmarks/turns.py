"""Measures cases: answers are compared first, then the readers take turns."""

from collections.abc import Sequence
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
    answers: dict[str, str] = {}
    rows: dict[str, int | None] = {}
    expected: dict[str, Any] | None = None
    for one in taking_part:
        try:
            if one.reads_base_files:
                one.time(path, read)
                answers[one.name] = STALE
                continue
            answer = one.check(path, read)
        except ReadFailedError as error:
            if one.name == OURS:
                raise
            answers[one.name] = f"{REFUSED}: {error}"
            continue
        expected = expected or answer
        rows[one.name] = answer["rows"]
        answers[one.name] = _verdict(answer, expected)
    readings: dict[str, list[Reading]] = {one.name: [] for one in taking_part}
    for _ in range(rounds):
        for one in taking_part:
            found = readings[one.name]
            if answers[one.name] not in (SAME, STALE) or (found and found[-1].seconds > SLOW_SECONDS):
                continue
            try:
                reading, read_rows = _timed(one, path, read, store)
            except ReadFailedError as error:
                answers[one.name] = f"{REFUSED}: {error}"
                continue
            found.append(reading)
            is_whole = read_rows is not None and read.delivery is not Delivery.FIRST_BATCH
            if is_whole and read_rows != rows.setdefault(one.name, read_rows):
                answers[one.name] = f"{WRONG}: {read_rows:,} rows when timed, {rows[one.name]:,} when checked"
    return [
        Line(
            case=case.name,
            read=read.name,
            reader=name,
            answer=answer,
            rows=rows.get(name),
            readings=tuple(readings[name]),
        )
        for name, answer in answers.items()
    ]


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
    for key in ("columns", "rows", "checksum"):
        if answer[key] != expected[key]:
            shown = "" if key == "checksum" else f", {_shown(answer[key])} for {_shown(expected[key])}"
            return f"{WRONG}: other {key if key != 'checksum' else 'values'}{shown}"
    return SAME


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(len(value) if isinstance(value, list) else value)
