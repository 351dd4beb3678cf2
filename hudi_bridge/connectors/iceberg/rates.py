"""Limits on how often clients may ask."""

import time
from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

_MOST_CLIENTS = 10_000


class RateLimit:
    """At most ``per_second`` requests of each client in the long run, and ``burst`` at once. Thread-safe."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._lock = Lock()
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, client: Hashable) -> bool:
        """Whether the client may ask now; if so, this counts."""
        with self._lock:
            now = time.monotonic()
            left, since = self._left.get(client, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._per_second)
            allowed = left >= 1
            self._left[client] = (left - 1 if allowed else left), now
            self._left.move_to_end(client)
            if len(self._left) > _MOST_CLIENTS:
                self._left.popitem(last=False)
            return allowed
