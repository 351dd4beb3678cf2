"""Where the time of a read goes: ``python -m benchmarks.steps updates-10 --read "all columns" --flame read.svg``.

Looks a thousand times a second at what every thread does, and sums up by step. Threads that wait for another one do not
count, so shares are those of the threads' time. What pyarrow does counts for the function that has called it.
"""

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from types import FrameType

from benchmarks.make_tables import default_cache
from benchmarks.plot import document
from benchmarks.reader_hudi_bridge import HudiBridge
from benchmarks.scenarios import Delivery, Read
from benchmarks.suite import SIZES, cases, make_all

Stack = tuple[str, ...]
"""Functions of the package, the outermost first, as ``module.function``."""

STEPS = {
    "open the table and plan": ("config", "indexes", "options", "splits", "storage", "table", "timeline"),
    "read logs": ("logformat.block", "logformat.scan", "readers.log_scan", "storage.ranges"),
    "decode log blocks": ("logformat",),
    "fold and merge": ("merge", "readers.realtime_compacted", "readers.merging"),
    "find the keys of logs in base files": ("readers.filters", "readers.key_matches"),
    "read base files": ("readers",),
    "evolve columns": ("schema",),
    "pass batches on": ("dataset", "readers.request", "split_reader", "common.threads"),
}
"""Steps by the modules and packages of the function that runs; the longest name counts."""
_PAUSE_SECONDS = 0.001
_WAITING_FILES = ("threading.py", "queue.py", "selectors.py", "thread.py")
_WAITING_MODULES = ("hudi_bridge.common.threads",)
_PACKAGE = "hudi_bridge."
_WIDTH, _ROW, _LEAST = 800, 17, 0.003
_STYLE = """\
text { font: 10px ui-monospace, monospace; fill: #1f2328 }
.open, .evolve { fill: #c5d4e3 } .read { fill: #f2d7a6 } .decode { fill: #f0b98d } .fold { fill: #b9d9b0 }
.find { fill: #d9c9ec } .pass { fill: #d8dee4 } .other { fill: #e7e1d6 }"""


@contextmanager
def watched() -> Iterator[Counter[Stack]]:
    """Counts the stacks of all other threads, until the context ends."""
    stacks: Counter[Stack] = Counter()
    ended = threading.Event()

    def watch() -> None:
        own = threading.get_ident()
        while not ended.wait(_PAUSE_SECONDS):
            for thread, frame in sys._current_frames().items():  # noqa: SLF001 - the only way to other threads
                if thread != own and (stack := _stack(frame)):
                    stacks[stack] += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(_PAUSE_SECONDS / 2)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield stacks
    finally:
        ended.set()
        watcher.join()
        sys.setswitchinterval(interval)


def _stack(innermost: FrameType) -> Stack:
    """The functions of the package; none for a thread that waits."""
    waits = innermost.f_globals.get("__name__") in _WAITING_MODULES
    if waits or Path(innermost.f_code.co_filename).name in _WAITING_FILES:
        return ()
    found: list[str] = []
    frame: FrameType | None = innermost
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_PACKAGE):
            name = f"{module.removeprefix(_PACKAGE)}.{frame.f_code.co_name}"
            if not found or found[-1] != name:
                found.append(name)
        frame = frame.f_back
    return tuple(reversed(found))


def step_of(function: str) -> str:
    """The step that a function belongs to, or its module."""
    best = max(
        ((len(module), step) for step, modules in STEPS.items() for module in modules if _is_in(function, module)),
        default=(0, function.rpartition(".")[0]),
    )
    return best[1]


def _is_in(function: str, module: str) -> bool:
    return function.startswith(f"{module}.")


def shares(stacks: Mapping[Stack, int]) -> list[tuple[str, float]]:
    """Steps with their shares, the largest first."""
    total = sum(stacks.values())
    by_step: Counter[str] = Counter()
    for stack, count in stacks.items():
        by_step[step_of(stack[-1])] += count
    return [(step, count / total) for step, count in by_step.most_common()]


def flame_graph(stacks: Mapping[Stack, int], title: str) -> str:
    """An SVG file: a bar for each function, as wide as its share of the time, below the function that has called it."""
    total = sum(stacks.values())
    body: list[str] = []

    def draw(inner: Mapping[Stack, int], depth: int, x: float) -> int:
        deepest = depth
        by_function: dict[str, Counter[Stack]] = {}
        for stack, count in inner.items():
            if len(stack) > depth:
                by_function.setdefault(stack[depth], Counter())[stack] += count
        for function, below in sorted(by_function.items()):
            share = below.total() / total
            if share >= _LEAST:
                body.append(_bar(function, share, x, depth))
                deepest = max(deepest, draw(below, depth + 1, x))
                x += share * _WIDTH
        return deepest

    depth = draw(stacks, 0, 0.0)
    return document(_WIDTH, _ROW * depth, body, title, _STYLE)


def _bar(function: str, share: float, x: float, depth: int) -> str:
    step = step_of(function)
    kind = step.partition(" ")[0] if step in STEPS else "other"
    width, y = share * _WIDTH, depth * _ROW
    room = int(width / 6.2)
    shown = function if len(function) <= room else function.rpartition(".")[2]
    text = escape(shown[: max(0, room)]) if room > 3 else ""
    return (
        f'<g><title>{escape(function)}: {100 * share:.0f} %</title><rect class="{kind}" x="{x:.1f}" y="{y}" '
        f'width="{max(0.5, width - 0.5):.1f}" height="{_ROW - 1}"/><text x="{x + 3:.1f}" y="{y + 12}">{text}</text></g>'
    )


def profile(path: str, read: Read, rounds: int) -> tuple[Counter[Stack], float]:
    """The stacks of some reads, after one that is not counted, and the seconds of one."""
    reader = HudiBridge()

    def once() -> None:
        if read.delivery is Delivery.TABLE:
            reader.table(path, read)
        elif read.delivery is Delivery.STREAM:
            sum(batch.num_rows for batch in reader.batches(path, read))
        else:
            next(reader.batches(path, read))

    once()
    start = time.perf_counter()
    with watched() as stacks:
        for _ in range(rounds):
            once()
    return stacks, (time.perf_counter() - start) / rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", default="updates-10", help="a case of the suite (default: %(default)s)")
    parser.add_argument("--size", choices=SIZES, default="standard")
    parser.add_argument("--read", default="all columns", help="a read of the case (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flame", type=Path, help="writes a flame graph, an SVG file")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    options = parser.parse_args()
    by_name = {case.name: case for case in cases(SIZES[options.size]) if not case.is_far}
    if options.case not in by_name:
        parser.error(f"the case is one of {', '.join(by_name)}")
    case = by_name[options.case]
    reads = {read.name: read for read in case.reads}
    if options.read not in reads:
        parser.error(f"the read is one of {', '.join(reads)}")
    (path,) = make_all([case], options.cache.resolve())
    stacks, seconds = profile(str(path), reads[options.read], options.rounds)
    print(f"{case.name} ({case.about}), {options.read}: {seconds:.3f} s, {stacks.total():,} samples\n")
    print("| step | share of the threads' time |\n|---|---:|")
    for step, share in shares(stacks):
        if share >= _LEAST:
            print(f"| {step} | {100 * share:.1f} % |")
    if options.flame:
        options.flame.write_text(flame_graph(stacks, f"{case.name}, {options.read}"))


if __name__ == "__main__":
    main()
