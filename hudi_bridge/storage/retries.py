"""Repeats requests to a store that have failed for a reason that passes, within a limit of time."""

import errno
import logging
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from hudi_bridge.common.threads import number_in, pause
from hudi_bridge.errors import HudiReadError

_LOG = logging.getLogger(__name__)
_LIMIT_VARIABLE = "HUDI_BRIDGE_STORE_RETRY_SECONDS"
_DEFAULT_LIMIT_SECONDS = 20.0
_FIRST_DELAY_SECONDS = 0.1
_LONGEST_DELAY_SECONDS = 5.0

_PASSING_NUMBERS = frozenset(
    (
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EPIPE,
        errno.ETIMEDOUT,
    )
)
_PASSING_STATUS = frozenset((408, 429, 500, 502, 503, 504))
_PASSING_TEXT = re.compile(
    r"(?i)slow ?down|too many requests|internal ?(server ?)?error|bad gateway|service ?unavailable|gateway time-?out"
    r"|timed out|connection (was )?(reset|closed|aborted|broken)|reset by peer|(server )?disconnected"
    r"|incomplete ?read|payload is not completed"
)
"""What clients of stores say about answers 429, 500, 502, 503 and 504, and about connections that broke."""

Result = TypeVar("Result")


class CutAnswerError(OSError):
    """A store has sent fewer bytes than were asked for; ``size`` is that of the file."""

    def __init__(self, size: int) -> None:
        super().__init__(errno.EIO, f"it ends before its {size} bytes")


def retry_seconds() -> float:
    """How long one request is repeated: HUDI_BRIDGE_STORE_RETRY_SECONDS, or 20 seconds."""
    return number_in(_LIMIT_VARIABLE, _DEFAULT_LIMIT_SECONDS, least=0.0)


def may_pass(error: BaseException) -> bool:
    """Whether a request that failed with the error may succeed if it is repeated; False for one without an answer."""
    return not isinstance(error, HudiReadError) and any(_may_pass(cause) for cause in _causes(error))


def with_retries(call: Callable[[], Result], may_pass: Callable[[BaseException], bool]) -> Result:
    """The result of the call, which is repeated after errors that may pass.

    The delays double from a tenth of a second to five seconds, less a random part. The last error is raised if the next
    delay would end after ``retry_seconds``, or if nobody waits for the result any more.
    """
    end = time.monotonic() + retry_seconds()
    delay = _FIRST_DELAY_SECONDS
    while True:
        try:
            return call()
        except Exception as error:
            shortened = delay * random.uniform(0.5, 1)  # noqa: S311 - so that clients do not return all at once
            if not may_pass(error) or time.monotonic() + shortened > end or not pause(shortened):
                raise
            _LOG.info("a request is repeated, since it failed with %s", type(error).__name__)
        delay = min(2 * delay, _LONGEST_DELAY_SECONDS)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, CutAnswerError | ConnectionError | TimeoutError):
        return True
    if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError | IsADirectoryError):
        return False
    response = getattr(error, "response", None)
    of_botocore = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    of_response = getattr(response, "status_code", None)
    numbers = (of_botocore, of_response, *(getattr(error, name, None) for name in ("status", "status_code", "code")))
    if any(number in _PASSING_STATUS for number in numbers if isinstance(number, int)):
        return True
    if isinstance(error, OSError) and error.errno in _PASSING_NUMBERS:
        return True
    return bool(_PASSING_TEXT.search(str(error)))
