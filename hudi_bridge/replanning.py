"""What a read of the newest state does when files that it has planned to read are gone: it may plan again.

Only as long as no row was given out: rows of two instants are never mixed, not even in a join of a query with itself.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from enum import StrEnum
from threading import Lock
from typing import TypeVar

import pyarrow as pa

from hudi_bridge.errors import DataFileGoneError, HudiReadError, InstantNotReadableError

_GONE = (DataFileGoneError, InstantNotReadableError)
_MOST_REPLANS = 3

_Result = TypeVar("_Result")
_Batches = Generator[pa.RecordBatch, None, None]


class OnFilesGone(StrEnum):
    """What a read of the newest state does when files that it needs were removed after the table was opened."""

    ERROR = "error"
    REPLAN = "replan"


class Replanning:
    """Repeats the reads of one query, which may run at the same time, until the first of them has given out rows.

    From then on, the plan stays, so that no two reads are of different instants.
    """

    def __init__(self, plan_again: Callable[[HudiReadError], None]) -> None:
        """``plan_again`` is called before a repetition, with the error, which it raises if it cannot plan again."""
        self._plan_again = plan_again
        self._lock = Lock()
        self._plans = 0
        self._is_fixed = False

    def whole(self, read: Callable[[], _Result]) -> _Result:
        """The result of a read that gives out all rows together.

        Raises:
            DataFileGoneError: files were gone, and no other plan could be made.
            InstantNotReadableError: likewise.
        """
        while True:
            plan = self._plans
            try:
                result = read()
            except _GONE as error:
                self._replace(plan, error)
                continue
            if self._fixes(plan):
                return result

    def batches(self, read: Callable[[], _Batches]) -> _Batches:
        """The batches of a read, which begins again only if no row was given out.

        Raises:
            DataFileGoneError: files were gone, and no other plan could be made or rows had been given out.
            InstantNotReadableError: likewise.
        """
        while True:
            plan, is_given = self._plans, False
            try:
                with closing(read()) as batches:
                    for batch in batches:
                        if not is_given and batch.num_rows and not self._fixes(plan):
                            break
                        is_given = is_given or batch.num_rows > 0
                        yield batch
                    else:
                        if is_given or self._fixes(plan):
                            return
            except _GONE as error:
                if is_given:
                    raise
                self._replace(plan, error)

    def _fixes(self, plan: int) -> bool:
        """Whether a read may give out what it has read by a plan; then all others keep to that plan."""
        with self._lock:
            if plan == self._plans:
                self._is_fixed = True
            return plan == self._plans

    def _replace(self, plan: int, error: HudiReadError) -> None:
        """Plan again, unless another read has done so since this plan."""
        with self._lock:
            if plan != self._plans:
                return
            if self._is_fixed or self._plans == _MOST_REPLANS:
                raise error
            self._plan_again(error)
            self._plans += 1
