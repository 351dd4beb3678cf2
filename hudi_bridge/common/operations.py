"""Reports what readers do and how long it takes: as lines of a log, and as spans of OpenTelemetry.

Spans are made in programs that have imported ``opentelemetry``; others have nobody to give them to. The names of spans
and attributes begin with ``hudi_bridge.``.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

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


def _shown(fact: Fact) -> str:
    return f"{fact:,}" if isinstance(fact, int) else str(fact)
