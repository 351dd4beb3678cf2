"""Reports what readers do and how long it takes: as lines of a log, and as spans of OpenTelemetry.

Spans are made in programs that have imported ``opentelemetry``; others have nobody to give them to. The names of spans
and attributes begin with ``hudi_bridge.``.

A program that shows progress watches the work of this process: how many file slices are done, and how many bytes.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeAlias

from hudi_bridge.common.display import size_text

Fact: TypeAlias = str | int | float | None
_TRACER = "hudi_bridge"
_PREFIX = "hudi_bridge."


class Operation:
    """An operation that is under way, with the facts about it so far."""

    def __init__(self, facts: dict[str, Fact], *, is_heard: bool) -> None:
        """An operation, with the facts that are known from the start."""
        self.facts = facts
        self.is_heard = is_heard
        """Whether anybody wants to know; otherwise, facts need not be gathered."""

    def note(self, **facts: Fact) -> None:
        """Add facts; None is left out."""
        self.facts |= facts


def current_context() -> Any:  # noqa: ANN401 - of OpenTelemetry
    """What spans of other threads, on behalf of this one, are to be part of; None without OpenTelemetry."""
    telemetry = sys.modules.get("opentelemetry.context")
    return None if telemetry is None else telemetry.get_current()


@contextmanager
def operation(
    logger: logging.Logger,
    name: str,
    level: int = logging.INFO,
    context: Any = None,  # noqa: ANN401 - of OpenTelemetry
    **facts: Fact,
) -> Iterator[Operation]:
    """A context that is logged when it ends, and is a span with the facts as attributes.

    Facts must hold no secrets. The span is part of the current one of this thread, or of that of ``context``.
    """
    trace = sys.modules.get("opentelemetry.trace")
    span = None if trace is None else trace.get_tracer(_TRACER).start_span(f"{_PREFIX}{name}", context)
    is_logged = logger.isEnabledFor(level)
    running, start = Operation(facts, is_heard=is_logged or span is not None), time.perf_counter()
    failure: BaseException | None = None
    try:
        yield running
    except GeneratorExit:
        # A consumer that stops early is no failure.
        raise
    except BaseException as error:
        failure = error
        raise
    finally:
        present = {key: fact for key, fact in running.facts.items() if fact is not None}
        if is_logged:
            text = ", ".join(f"{key.replace('_', ' ')} {_shown(fact)}" for key, fact in present.items())
            ending = "" if failure is None else f"; failed with {type(failure).__name__}"
            logger.log(level, "%s: %s; %.3f s%s", name, text, time.perf_counter() - start, ending)
        if span is not None:
            for key, fact in present.items():
                span.set_attribute(f"{_PREFIX}{key}", fact)
            if failure is not None:
                # Not the error itself: its text goes to the program, which decides who may see it.
                span.set_attribute("error.type", type(failure).__qualname__)
                span.set_status(trace.Status(trace.StatusCode.ERROR))  # type: ignore[union-attr]
            span.end()


class Work:
    """File slices that are read or built, and how much of that is done; ``changed`` is called when that changes."""

    def __init__(self, changed: "Callable[[Work], None]") -> None:
        self.slices = self.done_slices = 0
        self.size_bytes = self.done_bytes = 0
        self._changed = changed
        self._lock = Lock()

    def __str__(self) -> str:
        sizes = f"{size_text(self.done_bytes)} of {size_text(self.size_bytes)}"
        return f"{self.done_slices:,} of {self.slices:,} file slices, {sizes}"

    def begin(self, sizes: Iterable[int]) -> None:
        """Begins anew with slices of these sizes in bytes."""
        every = list(sizes)
        with self._lock:
            self.slices, self.size_bytes = len(every), sum(every)
            self.done_slices = self.done_bytes = 0
        self._changed(self)

    def finish(self, sizes: Iterable[int]) -> None:
        """Counts slices of these sizes in bytes as done, if they have begun since somebody watches."""
        every = list(sizes)
        if not self.slices:
            return
        with self._lock:
            self.done_slices += len(every)
            self.done_bytes += sum(every)
        self._changed(self)


_watched: list[Work] = []


def watched_work() -> Work | None:
    """The work that somebody watches; None if nobody does, and then it need not be counted."""
    return _watched[-1] if _watched else None


@contextmanager
def watching_work(changed: Callable[[Work], None]) -> Iterator[None]:
    """A context in which ``changed`` is called as file slices are planned and done, by any thread of the process."""
    work = Work(changed)
    _watched.append(work)
    try:
        yield
    finally:
        _watched.remove(work)


def _shown(fact: Fact) -> str:
    return f"{fact:,}" if isinstance(fact, int) else str(fact)
