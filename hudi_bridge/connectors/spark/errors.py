"""Errors of a table across the border between Python workers and the driver.

Spark passes an error of a worker on as its own, with the text of the traceback. A note, which is part of that text,
carries the facts of the original; another one says once more what has happened, so that a long text ends with it.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import hudi_bridge.errors
from hudi_bridge.errors import HudiReadError

_NOTE = "hudi_bridge: "
_FACTS = re.compile(re.escape(_NOTE) + r"(\{.*\})")


@contextmanager
def noting_facts() -> Iterator[None]:
    """Errors of a table leave with a note that ``cause_of`` understands."""
    try:
        yield
    except HudiReadError as error:
        # What it is made again from: the ``args`` of an OSError do not hold all of it.
        facts = error.__reduce__()[1]
        if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
            error.add_note(_NOTE + json.dumps({"error": type(error).__name__, "facts": facts}))
            error.add_note(f"{type(error).__name__}: {error}")
        raise


def cause_of(error: BaseException) -> HudiReadError | None:
    """The error of a table that an error of Spark stems from, with all its facts; None for any other.

    Spark raises its own error classes, on the driver and for a streaming query, with the text of the original.
    """
    if isinstance(error, HudiReadError):
        return error
    for text in _FACTS.findall(str(error)):
        try:
            document = json.loads(text)
            kind = getattr(hudi_bridge.errors, document["error"])
            found = kind(*document["facts"])
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
        if isinstance(found, HudiReadError):
            return found
    return None
