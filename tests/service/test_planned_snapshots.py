"""The plans of a service: they share scans, and are forgotten by their age and by the slices of all."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from hudi_bridge.service import planned_snapshots
from hudi_bridge.service.planned_snapshots import KeptPlans, Plan, Scan

NOTHING: Any = None


def scan_of(identity: str, slices: int = 10) -> Scan:
    return Scan(identity=identity, record=NOTHING, builder=NOTHING, residual=None, splits=(), weight=slices)


def plan_of(id_: str, scan: Scan, table: str = "t") -> Plan:
    return Plan(id=id_, table=table, scan=scan, with_statistics=frozenset())


def kept(plans: KeptPlans, *ids: str) -> list[bool]:
    return [plans.find("t", item) is not None for item in ids]


def test_shared_slices_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_snapshots, "_MOST_SLICES", 25)
    plans = KeptPlans()
    shared = scan_of("shared")
    for number in range(15):
        plans.add(plan_of(str(number), shared))
    assert all(kept(plans, *map(str, range(15))))
    assert plans.scan("shared") is shared
    plans.add(plan_of("15", shared))
    assert kept(plans, "0", "1") == [False, True]
    plans.add(plan_of("other", scan_of("other", 24)))
    assert kept(plans, "1", "15", "other") == [False, False, True]
    assert plans.scan("shared") is None
    plans.add(plan_of("small", scan_of("small", 0)))
    assert kept(plans, "other", "small") == [False, True]


def test_a_plan_stays_however_many_slices_it_has_and_those_in_use_stay_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_snapshots, "_MOST_SLICES", 25)
    plans = KeptPlans()
    plans.add(plan_of("large", scan_of("large", 1000)))
    assert kept(plans, "large") == [True]
    for name in ("a", "b"):
        plans.add(plan_of(name, scan_of(name)))
    assert kept(plans, "large", "b", "a") == [False, True, True]
    plans.add(plan_of("c", scan_of("c")))
    assert kept(plans, "a", "b", "c") == [True, False, True]
    for name in ("a", "c"):
        actual = plans.find("t", name)
        assert actual is not None
        plans.forget(actual)
        plans.forget(actual)
    plans.add(plan_of("d", scan_of("d", 12)))
    plans.add(plan_of("e", scan_of("e", 11)))
    assert kept(plans, "d", "e") == [True, True]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(planned_snapshots, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])}))
    return now


def test_what_nobody_has_used_for_minutes_is_forgotten(clock: list[float]) -> None:
    plans = KeptPlans()
    shared = scan_of("shared")
    plans.add(plan_of("a", shared))
    plans.add(plan_of("b", shared))
    clock[0] = 600
    assert kept(plans, "a") == [True]
    clock[0] = 1000
    assert plans.scan("shared") is shared
    assert kept(plans, "b", "a") == [False, True]
    clock[0] = 2000
    plans.forget_unused()
    assert plans.scan("shared") is None


def test_a_plan_of_another_table_is_not_found_and_not_used(clock: list[float]) -> None:
    plans = KeptPlans()
    plans.add(plan_of("a", scan_of("a")))
    clock[0] = 600
    assert plans.find("another", "a") is None
    clock[0] = 1000
    assert kept(plans, "a") == [False]


def test_threads_share_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_snapshots, "_MOST_SLICES", 60)
    plans, numbers = KeptPlans(), count()

    def use() -> None:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            number = next(numbers)
            name = str(number % 7)
            plan = plan_of(str(number), plans.scan(name) or scan_of(name))
            plans.add(plan)
            plans.find("t", str(number - 3))
            if number % 2:
                plans.forget(plan)

    with ThreadPoolExecutor(4) as threads:
        for item in [threads.submit(use) for _ in range(4)]:
            item.result()
    for number in range(next(numbers)):
        actual = plans.find("t", str(number))
        if actual is not None:
            plans.forget(actual)
    # Nothing is counted any more: what just fits does.
    plans.add(plan_of("x", scan_of("x", 29)))
    plans.add(plan_of("y", scan_of("y", 29)))
    assert kept(plans, "x", "y") == [True, True]
