"""Remembers which base files Spark reads itself, so that ``cause_of`` can tell what is wrong with one.

Spark's errors name a file, but not whether Hudi's cleaner has removed it. The file is read again to find out.

Carries errors of a table from Python workers to the driver.

Spark raises its own error, with the text of the worker's traceback; notes in it hold the arguments and message of the
original.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import hudi_bridge.errors
from hudi_bridge.connectors.spark.plan import load_split
from hudi_bridge.errors import HudiReadError
from hudi_bridge.split_reader import reading_error
from hudi_bridge.splits.split import ReadContext

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")
# Each may hold thousands of slices.
_READS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFiles:
    """The pickled slices of one read whose base files Spark reads, by the names of these files."""

    contexts: tuple[ReadContext, ...]
    slices: Mapping[str, bytes]


_RECENT: deque[NativeFiles] = deque(maxlen=_READS)


def remember(files: NativeFiles) -> None:
    """Lets ``cause_in`` know of files, until some more reads have been remembered."""
    _RECENT.appendleft(files)


def cause_in(text: str) -> HudiReadError | None:
    """What is wrong with a file that the text of an error names; None if it names none, or if all can be read."""
    for split, contexts in _slices_in(text):
        context = contexts[0]
        error = reading_error(context.open_storage(), load_split(split, contexts))
        if error is not None:
            return error
    return None


def _slices_in(text: str) -> Iterator[tuple[bytes, tuple[ReadContext, ...]]]:
    for name in dict.fromkeys(_FILE_NAME.findall(text)):
        for files in tuple(_RECENT):
            if name in files.slices:
                yield files.slices[name], files.contexts
                break


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
