"""What a read of the newest state does when files that it has planned to read are gone: it may plan again.

Only as long as no row was given out: rows of two instants are never mixed.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from enum import StrEnum
from typing import TypeVar

import pyarrow as pa

from hudi_bridge.errors import DataFileGoneError, HudiReadError, InstantNotReadableError

_GONE = (DataFileGoneError, InstantNotReadableError)
_MOST_PLANS = 4

_Result = TypeVar("_Result")
_Batches = Generator[pa.RecordBatch, None, None]


class OnFilesGone(StrEnum):
    """What a read of the newest state does when files that it needs were removed after the table was opened."""

    ERROR = "error"
    REPLAN = "replan"


class Replanning:
    """Repeats a read; ``plan_again`` is called before, with the error, which it raises if it cannot plan again."""

    def __init__(self, plan_again: Callable[[HudiReadError], None]) -> None:
        self._plan_again = plan_again

    def whole(self, read: Callable[[], _Result]) -> _Result:
        """The result of a read that gives out all rows together.

        Raises:
            DataFileGoneError: files were gone again, whenever they were looked for.
            InstantNotReadableError: likewise.
        """
        for _ in range(1, _MOST_PLANS):
            try:
                return read()
            except _GONE as error:
                self._plan_again(error)
        return read()

    def batches(self, read: Callable[[], _Batches]) -> _Batches:
        """The batches of a read, which begins again only if no row was given out.

        Raises:
            DataFileGoneError: files were gone again, or when rows had been given out.
            InstantNotReadableError: likewise.
        """
        for plans in range(1, _MOST_PLANS + 1):
            are_given = False
            try:
                with closing(read()) as batches:
                    for batch in batches:
                        are_given = are_given or batch.num_rows > 0
                        yield batch
            except _GONE as error:
                if are_given or plans == _MOST_PLANS:
                    raise
                self._plan_again(error)
            else:
                return
