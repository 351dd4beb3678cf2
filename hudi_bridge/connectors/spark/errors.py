"""Errors of a table that happen in Spark's processes, as errors of this package on the driver.

Spark raises its own error, with what a worker writes of the original: in PySpark 4 its message, and its traceback first
in PySpark 3.5. ``noting_error_details`` adds notes to the original error, which hold its arguments, and ``cause_of``
restores it from the text.

Errors of Spark's own scan name a file, but not whether Hudi's cleaner has removed it. ``remember`` records the files
that Spark reads itself, so that ``cause_of`` can read the file again to find out.

Source: ``handle_worker_exception`` of PySpark.
"""

import inspect
import json
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyspark.util

import hudi_bridge.errors
from hudi_bridge.connectors.spark.plan import load_split
from hudi_bridge.errors import HudiReadError
from hudi_bridge.split_reader import reading_error
from hudi_bridge.splits.split import ReadContext

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")
# A read may hold thousands of slices.
_MAX_READS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFiles:
    """The pickled slices of one read whose base files Spark reads, by the names of these files."""

    contexts: tuple[ReadContext, ...]
    slices: Mapping[str, bytes]


_RECENT: deque[NativeFiles] = deque(maxlen=_MAX_READS)


def remember(files: NativeFiles) -> None:
    """Records the files of a read for ``cause_of``; the oldest of ``_MAX_READS`` reads is dropped."""
    _RECENT.appendleft(files)


def _cause_in(text: str) -> HudiReadError | None:
    """The error of a file that the text of an error names; None if it names no file, or if all can be read."""
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
_REPORT = getattr(pyspark.util, "handle_worker_exception", None)
_CAN_HIDE_TRACEBACKS = _REPORT is not None and "hide_traceback" in inspect.signature(_REPORT).parameters
"""Whether this release of PySpark can leave out tracebacks, as 3.5 cannot."""


@contextmanager
def noting_error_details() -> Iterator[None]:
    """Adds a note that ``cause_of`` understands to errors of a table, whose message Spark then shows first."""
    try:
        yield
    except HudiReadError as error:
        # The constructor's arguments; ``args`` of an OSError does not hold all of them.
        arguments = error.__reduce__()[1]
        if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
            error.add_note(_NOTE + json.dumps({"error": type(error).__name__, "arguments": arguments}))
            if not _CAN_HIDE_TRACEBACKS:
                # The message is also the end of the text.
                error.add_note(f"{type(error).__name__}: {error}")
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            # A worker reports the error and ends, so this hides no other traceback.
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
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
            original = kind(*document["arguments"])
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
        if isinstance(original, HudiReadError):
            return original
    return _cause_in(str(error))
