"""The rows of the large tables of a report as JSON, which the page's script searches, sorts and shows in parts.

``data.json`` in the page: ``names`` are partition paths, ``partitions`` and ``slices`` begin with a place in them.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hudi_bridge.display import clipped
from hudi_bridge.doctor import SliceCost
from hudi_bridge.pages import shown
from hudi_bridge.report.contents import PartitionCost, Report, TimelineEntry
from hudi_bridge.report.units import time_text

MOST_SLICES = 20_000
MOST_PARTITIONS = 10_000
MOST_INSTANTS = 5_000
"""How many of each are in a page, so that it stays small: the most expensive ones, and the newest instants."""
_MOST_EXTRA = 20
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def embedded(report: Report) -> str:
    """The JSON text of a report, which may stand in a ``script`` element: it has none of ``<``, ``>`` and ``&``."""
    slices, partitions = report.diagnosis.slices[:MOST_SLICES], report.partitions[:MOST_PARTITIONS]
    names = dict.fromkeys((*(one.path for one in partitions), *(one.partition_path for one in slices)))
    places = {path: place for place, path in enumerate(names)}
    log_bytes = sum(one.log_bytes for one in report.partitions)
    content = {
        "names": [_text(path) or "(none)" for path in places],
        "partitions": [_partition_row(one, places[one.path], log_bytes) for one in partitions],
        "slices": [_slice_row(one, places[one.partition_path]) for one in slices],
        "instants": list(_instant_rows(report.timeline)),
    }
    return json.dumps(content, separators=(",", ":")).translate(_ESCAPES)


def _partition_row(one: PartitionCost, place: int, log_bytes: int) -> Sequence[Any]:
    share = one.log_bytes / log_bytes if log_bytes else 0
    return (
        place,
        one.slices,
        one.base_bytes,
        one.log_bytes,
        one.log_files,
        one.most_writes,
        one.overdue,
        round(share, 4),
    )


def _slice_row(one: SliceCost, place: int) -> Sequence[Any]:
    ratio = None if one.log_ratio is None else round(one.log_ratio, 3)
    return (place, _text(one.file_id), one.base_bytes, one.log_bytes, one.log_files, one.delta_commits, ratio)


def _instant_rows(timeline: Sequence[TimelineEntry]) -> Iterable[Sequence[Any]]:
    """The newest instants, each with its number in the timeline, and at the end what the panel shows beside."""
    first = max(0, len(timeline) - MOST_INSTANTS)
    for number, entry in enumerate(timeline[first:], start=first):
        seconds = None if entry.seconds is None else round(entry.seconds, 3)
        extra = [(_text(name), _text(value)) for name, value in entry.extra_metadata[:_MOST_EXTRA]]
        yield (
            entry.requested_time,
            entry.action,
            entry.state,
            seconds,
            None if entry.operation is None else _text(entry.operation),
            entry.rows_inserted,
            entry.rows_updated,
            entry.rows_deleted,
            entry.bytes_written,
            {
                "number": number,
                "requested": time_text(entry.requested_time),
                "completed": None if entry.completion_time is None else time_text(entry.completion_time),
                "extra": extra,
            },
        )


def _text(text: str) -> str:
    return shown(clipped(text))
