"""Draws a timeline: a column for each instant, a lane for each action, and below how long each took.

The state of an instant is in its shape, as well as in its fill: completed ones are squares, those in flight have a
thick border and those requested a thin one. Durations have a logarithmic scale.

Durations and times for people.
"""

from collections.abc import Iterator, Sequence
from math import log10

from hudi_bridge.common.display import page_text
from hudi_bridge.timeline.instant import Action, time_of
from hudi_bridge.tools.report.contents import TimelineEntry

_UNITS = ((86_400, "days"), (3600, "h"), (60, "min"))


def duration_text(seconds: float) -> str:
    """A duration: ``0.8 s``, ``4.5 min``, ``3.0 h``, ``2.1 days``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def time_text(instant: str) -> str:
    """An instant to the second, as it is if it is no time."""
    moment = time_of(instant)
    return instant if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


MOST_DRAWN = 400
"""The newest instants that are drawn."""
_LABELS, _WIDTH, _LANE, _DURATIONS, _TIMES = 130, 1000, 26, 90, 34
_NARROWEST, _WIDEST = 6, 60
_MARK = 14
_LEAST_SECONDS = 0.1
_GRID = ((1, "1 s"), (60, "1 min"), (3600, "1 h"), (86_400, "1 day"))
_TICK_EVERY = 150
_KINDS = {
    Action.COMPACTION: "service",
    Action.LOG_COMPACTION: "service",
    Action.CLUSTERING: "service",
    Action.CLEAN: "service",
    Action.INDEXING: "service",
    Action.ROLLBACK: "undo",
    Action.RESTORE: "undo",
    Action.SAVEPOINT: "savepoint",
}


def draw_timeline(entries: Sequence[TimelineEntry]) -> str:
    """An SVG element of the newest instants; each is a group ``instant`` with its number in ``data-instant``."""
    return "".join(_drawing(entries))


def _drawing(entries: Sequence[TimelineEntry]) -> Iterator[str]:
    first = max(0, len(entries) - MOST_DRAWN)
    drawn = entries[first:]
    found = {entry.action for entry in drawn}
    lanes = [str(action) for action in Action if action in found]
    slot = min(_WIDEST, max(_NARROWEST, (_WIDTH - _LABELS) / len(drawn)))
    width = max(_WIDTH, _LABELS + slot * len(drawn))
    floor = len(lanes) * _LANE + _DURATIONS
    most = max([1.0, *(entry.seconds for entry in drawn if entry.seconds is not None)])
    yield (
        f'<svg class="timeline" role="group" aria-label="Timeline" viewBox="0 0 {width:g} {floor + _TIMES}" '
        f'width="{width:g}" height="{floor + _TIMES}">\n'
    )
    for number, action in enumerate(lanes):
        middle = number * _LANE + _LANE / 2
        yield f'<text class="lane" x="0" y="{middle + 4:g}">{page_text(action)}</text>'
        yield f'<line class="grid" x1="{_LABELS}" x2="{width:g}" y1="{middle:g}" y2="{middle:g}"/>\n'
    for seconds, name in _GRID:
        if seconds <= most:
            y = floor - _height(seconds, most)
            yield f'<text class="lane" x="{_LABELS - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'
            yield f'<line class="grid" x1="{_LABELS}" x2="{width:g}" y1="{y:.1f}" y2="{y:.1f}"/>\n'
    for place, entry in enumerate(drawn):
        left = _LABELS + place * slot
        middle = lanes.index(entry.action) * _LANE + _LANE / 2
        yield from _instant(entry, first + place, left, slot, middle, floor, most)
    yield from _times(drawn, slot, floor)
    yield "</svg>\n"


def _instant(
    entry: TimelineEntry, number: int, left: float, slot: float, middle: float, floor: int, most: float
) -> Iterator[str]:
    size = min(_MARK, slot - 2)
    kind = _KINDS.get(Action(entry.action), "write")
    x = left + (slot - size) / 2
    said = page_text(instant_text(entry))
    yield f'<g class="instant {kind} {entry.state}" data-instant="{number}" role="img" aria-label="{said}">'
    yield f'<title>{said}</title><rect class="hit" x="{left:.1f}" y="0" width="{slot:.1f}" height="{floor}"/>'
    yield f'<rect class="mark" x="{x:.1f}" y="{middle - _MARK / 2:g}" width="{size:.1f}" height="{_MARK}"/>'
    if entry.seconds is not None:
        height = max(1.0, _height(entry.seconds, most))
        top = floor - height
        yield f'<rect class="mark" x="{x:.1f}" y="{top:.1f}" width="{size:.1f}" height="{height:.1f}"/>'
    yield "</g>\n"


def instant_text(entry: TimelineEntry) -> str:
    """An instant as a sentence."""
    took = "" if entry.seconds is None else f", {duration_text(entry.seconds)}"
    if not entry.is_completed:
        took = "" if entry.seconds is None else f" for {duration_text(entry.seconds)}"
    return f"{entry.requested_time} {entry.action} {entry.state}{took}"


def _height(seconds: float, most: float) -> float:
    """The height of a duration in the drawing."""
    least = log10(_LEAST_SECONDS)
    part = (log10(max(seconds, _LEAST_SECONDS)) - least) / (log10(max(most, 1.0)) - least)
    return part * (_DURATIONS - 20)


def _times(drawn: Sequence[TimelineEntry], slot: float, floor: int) -> Iterator[str]:
    """The requested times of some instants, far enough from each other, the newest in any case."""
    every = max(1, -(-_TICK_EVERY // int(slot)))
    places = range(len(drawn) - 1, -1, -every)
    for place in places:
        x = _LABELS + (place + 0.5) * slot
        anchor = "end" if x + _TICK_EVERY / 2 > _WIDTH and place == len(drawn) - 1 else "middle"
        text = page_text(time_text(drawn[place].requested_time))
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{floor + 8}"/>'
        yield f'<text class="lane" x="{x:.1f}" y="{floor + 22}" text-anchor="{anchor}">{text}</text>\n'
