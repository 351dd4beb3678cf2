"""The plans of scans that a service keeps in memory, until nobody asks for them any more.

A plan is forgotten once it was not used for some minutes; or earlier, if later ones need the room: the plans of all
tables share it by their slices. Plans of the same slices for the same filter share one list of them.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from hudi_bridge.connectors.iceberg.slice_builder import SliceBuilder
from hudi_bridge.connectors.iceberg.snapshot import IcebergSnapshot
from hudi_bridge.splits.split import RealtimeFileSplit

_MOST_SLICES = 100_000
"""They take about 100 MiB."""
_UNUSED_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The slices of a state that a filter leaves, and how their files are built; ``residual`` is the filter as JSON.

    ``identity`` is a hash of the state and the filter. ``weight`` says as how many slices the scan counts.
    """

    identity: str
    record: IcebergSnapshot
    builder: SliceBuilder
    residual: Any
    splits: Sequence[RealtimeFileSplit]
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A scan that a client goes through. ``table`` names what is scanned, ``with_statistics`` are ids of columns."""

    id: str
    table: str
    scan: Scan
    with_statistics: frozenset[int]


class KeptPlans:
    """The plans of all tables of a service. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        # With the time of the last use, the longest unused first.
        self._plans: OrderedDict[str, tuple[Plan, float]] = OrderedDict()
        # With the number of plans.
        self._scans: dict[str, tuple[Scan, int]] = {}
        self._slices = 0

    def add(self, plan: Plan) -> None:
        """Keep a plan, and forget others if all have too many slices."""
        with self._lock:
            scan, plans = self._scans.get(plan.scan.identity, (plan.scan, 0))
            self._scans[scan.identity] = scan, plans + 1
            self._plans[plan.id] = plan, time.monotonic()
            self._slices += 1 + (0 if plans else scan.weight)
            self._forget_unused()

    def find(self, table: str, id_: str) -> Plan | None:
        """The plan of a table with an id, which is used by that; None if there is none."""
        with self._lock:
            self._forget_unused()
            plan, _ = self._plans.get(id_, (None, 0.0))
            if plan is None or plan.table != table:
                return None
            self._plans[id_] = plan, time.monotonic()
            self._plans.move_to_end(id_)
            return plan

    def scan(self, identity: str) -> Scan | None:
        """The scan of the plans with an identity; None if there are none."""
        with self._lock:
            self._forget_unused()
            scan, _ = self._scans.get(identity, (None, 0))
            return scan

    def forget(self, plan: Plan) -> None:
        """Forget a plan, if it is kept."""
        with self._lock:
            self._forget(plan.id)

    def forget_unused(self) -> None:
        """Forget the plans that were not used for too long."""
        with self._lock:
            self._forget_unused()

    def _forget_unused(self) -> None:
        end = time.monotonic() - _UNUSED_SECONDS
        while self._plans:
            id_, (_, used) = next(iter(self._plans.items()))
            has_room = self._slices <= _MOST_SLICES or len(self._plans) == 1
            if used > end and has_room:
                return
            self._forget(id_)

    def _forget(self, id_: str) -> None:
        plan, _ = self._plans.pop(id_, (None, 0.0))
        if plan is None:
            return
        scan, plans = self._scans.pop(plan.scan.identity)
        self._slices -= 1 + (0 if plans > 1 else scan.weight)
        if plans > 1:
            self._scans[scan.identity] = scan, plans - 1
