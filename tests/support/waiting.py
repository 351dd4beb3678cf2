"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable
from typing import Any

TIMEOUT_SECONDS = 60


def wait_for(condition: Callable[[], Any]) -> None:
    """Return once a condition is true; fail if it stays false."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.02)
