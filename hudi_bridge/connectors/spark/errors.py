"""Carries errors of a table from Python workers to the driver.

Spark raises its own error, with the text of the worker's traceback; notes in it hold the arguments and message of the
original.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import hudi_bridge.errors
from hudi_bridge.connectors.spark.native_files import cause_in
from hudi_bridge.errors import HudiReadError

_NOTE = "hudi_bridge: "
_NOTE_PATTERN = re.compile(re.escape(_NOTE) + r"(\{.*\})")


@contextmanager
def noting_error_details() -> Iterator[None]:
    """Adds a note that ``cause_of`` understands to errors of a table."""
    try:
        yield
    except HudiReadError as error:
        # The constructor's arguments; ``args`` of an OSError does not hold all of them.
        arguments = error.__reduce__()[1]
        if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
            error.add_note(_NOTE + json.dumps({"error": type(error).__name__, "arguments": arguments}))
            error.add_note(f"{type(error).__name__}: {error}")
        raise


def cause_of(error: BaseException) -> HudiReadError | None:
    """The error of a table that caused an error of Spark, with all its attributes; None if there is no such cause.

    Spark raises its own error classes, on the driver and for a streaming query, with the text of the original. If the
    error names a base file that Spark has read itself, the file is read again to find what is wrong with it.
    """
    if isinstance(error, HudiReadError):
        return error
    for text in _NOTE_PATTERN.findall(str(error)):
        try:
            document = json.loads(text)
            kind = getattr(hudi_bridge.errors, document["error"])
            found = kind(*document["arguments"])
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
        if isinstance(found, HudiReadError):
            return found
    return cause_in(str(error))
