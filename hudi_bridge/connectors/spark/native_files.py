"""Remembers which base files Spark reads itself, so that ``cause_of`` can tell what is wrong with one.

Spark's errors name a file, but not whether Hudi's cleaner has removed it. The file is read again to find out.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hudi_bridge.connectors.spark.plan import load_split
from hudi_bridge.dispatch import reading_error
from hudi_bridge.errors import HudiReadError
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
