"""Draws the ratios of a run, or curves, as SVG, readable on light and dark pages."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.readings import BUNDLE, DUCKDB, FLOOR, NEWEST_PEER, OURS, PEER, Run

_SHAPES = {
    PEER: ("hudi", "M-4,0 L0,-4 L4,0 L0,4 Z"),
    NEWEST_PEER: ("newest", "M-4,-3 L0,4 L4,-3 Z"),
    BUNDLE: ("spark", "M-3.5,-3.5 H3.5 V3.5 H-3.5 Z"),
    FLOOR: ("floor", "M-4,3 L0,-4 L4,3 Z"),
    DUCKDB: ("duckdb", "M-3.5,0 A3.5,3.5 0 1,0 3.5,0 A3.5,3.5 0 1,0 -3.5,0 Z"),
}
_OURS = ("ours", "M-3.5,0 L0,-3.5 L3.5,0 L0,3.5 Z M-3.5,-3.5 L3.5,3.5")
STYLE = """\
text { font: 11px system-ui, sans-serif; fill: #24292f }
.line { stroke: #d0d7de } .one { stroke: #57606a; stroke-width: 1.5 } .newest { fill: #cf222e }
.hudi { fill: #bc4c00 } .spark { fill: #0969da } .floor { fill: #6e7781 } .duckdb { fill: #7d8b00 }
.ours { fill: #1a7f37; stroke: #1a7f37 } .curve { fill: none; stroke-width: 1.5 } .newest.curve { stroke: #cf222e }
.hudi.curve { stroke: #bc4c00 } .floor.curve { stroke: #6e7781 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .line { stroke: #3d444d } .one { stroke: #9198a1 } .newest { fill: #ff7b72 }
.hudi { fill: #f0883e } .spark { fill: #58a6ff } .floor { fill: #9198a1 } .duckdb { fill: #c6d32f }
.ours { fill: #3fb950; stroke: #3fb950 } .curve { fill: none } .newest.curve { stroke: #ff7b72 }
.hudi.curve { stroke: #f0883e } .floor.curve { stroke: #9198a1 }
}"""
_LEFT, _WIDTH, _ROW, _TOP, _RIGHT = 240, 420, 15, 46, 20
_PANEL_WIDTH, _PANEL_HEIGHT, _PANEL_TOP, _MARGIN, _PANELS_IN_ROW = 330, 230, 40, 54, 2
_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def document(width: float, height: float, body: list[str], title: str, style: str = STYLE) -> str:
    """An SVG file of some elements."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">'
    return "\n".join((head, f"<title>{escape(title)}</title>", f"<style>{style}</style>", *body, "</svg>", ""))


def dots(run: Run) -> str:
    """The time of each other reader over that of hudi-bridge, on a logarithmic scale, a row for each read."""
    rows = []
    for case, read in run.reads():
        ours = run.line(case, read, OURS)
        others = {name: run.line(case, read, name) for name in _SHAPES}
        if ours is not None and ours.is_timed:
            timed = {name: line for name, line in others.items() if line is not None and line.is_timed}
            rows.append(
                (f"{case}, {read}", {name: line.best("seconds") / ours.best("seconds") for name, line in timed.items()})
            )
    ratios = [1.0, *(ratio for _, found in rows for ratio in found.values())]
    low, high = math.log(min(ratios) / 1.15), math.log(max(ratios) * 1.15)

    def place(ratio: float) -> float:
        return _LEFT + _WIDTH * (math.log(ratio) - low) / (high - low)

    bottom = _TOP + _ROW * len(rows)
    body = []
    for tick in _TICKS:
        if low <= math.log(tick) <= high:
            x = place(tick)
            kind = "one" if tick == 1 else "line"
            body.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{bottom}"/>')
            body.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{tick:g}x</text>')
    for number, (name, found) in enumerate(rows):
        y = _TOP + _ROW * (number + 0.5)
        body.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        for reader, ratio in found.items():
            kind, shape = _SHAPES[reader]
            tip = f"<title>{escape(reader)}: {ratio:.2f}</title>"
            body.append(
                f'<path class="{kind}" d="{shape}" transform="translate({place(ratio):.1f},{y:.1f})">{tip}</path>'
            )
    body += _legend(_SHAPES)
    body.append('<text x="8" y="33">Time over that of hudi-bridge: to the right of 1x, hudi-bridge is faster</text>')
    return document(_LEFT + _WIDTH + _RIGHT, bottom + 24, body, "Time of other readers over that of hudi-bridge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One diagram of several: for each reader, points of what grows, in a unit, and seconds."""

    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def curves(panels: Sequence[Panel]) -> str:
    """The panels in rows, with logarithmic scales of both."""
    shapes = {OURS: _OURS, **_SHAPES}
    shapes = {name: shape for name, shape in shapes.items() if any(panel.lines.get(name) for panel in panels)}
    body = _legend(shapes)
    for number, panel in enumerate(panels):
        x, y = number % _PANELS_IN_ROW * _PANEL_WIDTH, _PANEL_TOP + number // _PANELS_IN_ROW * _PANEL_HEIGHT
        body += [f'<g transform="translate({x},{y})">', *_panel(panel, shapes), "</g>"]
    rows = -(-len(panels) // _PANELS_IN_ROW)
    title = "Seconds of each reader, as tables grow"
    return document(_PANELS_IN_ROW * _PANEL_WIDTH, _PANEL_TOP + rows * _PANEL_HEIGHT, body, title)


def _panel(panel: Panel, shapes: Mapping[str, tuple[str, str]]) -> list[str]:
    points = [point for line in panel.lines.values() for point in line]
    body = [f'<text x="{_MARGIN}" y="12">{escape(panel.title)}</text>']
    if not points:
        return body
    across, up = ([point[axis] for point in points] for axis in (0, 1))
    left, right, top, bottom = _MARGIN, _PANEL_WIDTH - 14, 24, _PANEL_HEIGHT - 46

    def x_of(number: float) -> float:
        return left + (right - left) * _share(number, min(across), max(across))

    def y_of(seconds: float) -> float:
        return bottom + (top - bottom) * _share(seconds, min(up), max(up))

    for number in sorted(set(across)):
        body.append(f'<line class="line" x1="{x_of(number):.1f}" x2="{x_of(number):.1f}" y1="{top}" y2="{bottom}"/>')
        body.append(f'<text x="{x_of(number):.1f}" y="{bottom + 14}" text-anchor="middle">{number:g}</text>')
    for seconds in (min(up), max(up)):
        body.append(f'<line class="line" x1="{left}" x2="{right}" y1="{y_of(seconds):.1f}" y2="{y_of(seconds):.1f}"/>')
        body.append(f'<text x="{left - 6}" y="{y_of(seconds) + 4:.1f}" text-anchor="end">{seconds:.2g} s</text>')
    body.append(f'<text x="{right}" y="{bottom + 28}" text-anchor="end">{escape(panel.unit)}</text>')
    for reader, (kind, shape) in shapes.items():
        line = [(x_of(number), y_of(seconds)) for number, seconds in panel.lines.get(reader, ())]
        path = " L".join(f"{x:.1f},{y:.1f}" for x, y in line)
        body += [f'<path class="{kind} curve" d="M{path}"/>'] if line else []
        body += [f'<path class="{kind}" d="{shape}" transform="translate({x:.1f},{y:.1f})"/>' for x, y in line]
    return body


def _share(number: float, least: float, most: float) -> float:
    """Where a number is between two others, by its logarithm."""
    return math.log(number / least) / math.log(most / least) if most > least else 0.5


def _legend(shapes: Mapping[str, tuple[str, str]]) -> list[str]:
    body, x = [], 8
    for reader, (kind, shape) in shapes.items():
        body.append(f'<path class="{kind}" d="{shape}" transform="translate({x},12)"/>')
        body.append(f'<text x="{x + 9}" y="16">{escape(reader)}</text>')
        x += 30 + 7 * len(reader)
    return body
