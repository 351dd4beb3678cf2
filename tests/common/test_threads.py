"""Threads that work for one consumer: results in order, errors, and interrupts at the worst moments."""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from itertools import islice
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.common import threads
from hudi_bridge.common.threads import (
    iter_parallel,
    map_in_threads,
    map_while_waiting,
    prefetch,
    prefetch_one,
    turns_of_process,
)
from tests.support.waiting import wait_for


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("hudi-bridge")]


@pytest.fixture(autouse=True)
def no_thread_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever has happened, all threads end soon."""
    monkeypatch.setattr("hudi_bridge.common.threads.os.cpu_count", lambda: 4)
    turns_of_process.cache_clear()
    yield
    monkeypatch.undo()
    turns_of_process.cache_clear()
    deadline = time.monotonic() + 10
    while workers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert workers() == []


def endless() -> Iterator[Any]:
    number = 0
    while True:
        yield pa.record_batch({"n": [number]})
        number += 1


def read_two(items: Generator[Any, None, None]) -> None:
    with closing(items):
        assert len(list(islice(items, 2))) == 2
        # By then all wait for room.
        time.sleep(0.02)


@pytest.mark.parametrize("most", [1, 3, 50])
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_results_come_in_the_order_of_the_items(count: int, most: int) -> None:
    def slower_at_first(number: int) -> int:
        time.sleep(0.002 / (number + 1))
        return number * number

    assert map_in_threads(slower_at_first, range(count), most) == [number * number for number in range(count)]


@pytest.mark.parametrize("items", [[], [3]])
def test_fewer_than_two_items_need_no_thread(items: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(threads, "Workers")
    assert map_in_threads(str, items, 2) == [str(item) for item in items]


@pytest.mark.parametrize("wait_seconds", [0.0, 0.002])
@pytest.mark.parametrize("count", [0, 1, 8, 40])
def test_only_calls_that_wait_are_made_in_threads(count: int, wait_seconds: float) -> None:
    callers = set()

    def call(number: int) -> int:
        callers.add(threading.current_thread().name)
        time.sleep(wait_seconds) if wait_seconds else sum(range(20_000))
        return number * number

    assert map_while_waiting(call, range(count), 4) == [number * number for number in range(count)]
    in_workers = any(name.startswith("hudi-bridge") for name in callers)
    # On a busy machine, a thread waits for the processor as well.
    assert in_workers or not (wait_seconds and count > 9)


def test_an_error_ends_all() -> None:
    asked = []

    def fails(number: int) -> int:
        asked.append(number)
        if number == 3:
            raise ZeroDivisionError
        time.sleep(0.001)
        return number

    with pytest.raises(ZeroDivisionError):
        map_in_threads(fails, range(1000), 2)
    assert len(asked) < 1000


@pytest.mark.parametrize("items", [lambda: iter_parallel([endless] * 4), lambda: prefetch_one(endless)])
@pytest.mark.parametrize(
    "step",
    [
        "Workers.start",
        "Workers.end",
        "threading.Thread.is_alive",
        "threading.Thread.join",
        "_thread.start_new_thread",
    ],
)
@pytest.mark.parametrize("comes", ["before", "after"])
def test_an_interrupt_while_threads_start_or_end_leaves_none(
    items: Callable[[], Generator[Any, None, None]], step: str, comes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = attrgetter(step.rpartition(".")[0])(threads)
    name, interrupts = step.rpartition(".")[2], [KeyboardInterrupt]
    whole = getattr(owner, name)

    def interrupted(*arguments: Any) -> Any:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if comes == "before" and in_main_thread and interrupts:
            raise interrupts.pop()
        result = whole(*arguments)
        if in_main_thread and interrupts:
            raise interrupts.pop()
        return result

    monkeypatch.setattr(owner, name, interrupted)
    # Threads that have ended already are not waited for.
    with suppress(KeyboardInterrupt):
        read_two(items())


def test_an_interrupt_of_what_is_done_meanwhile_leaves_none() -> None:
    with pytest.raises(KeyboardInterrupt), prefetch(endless()):
        raise KeyboardInterrupt


def test_an_interrupt_between_two_items_leaves_none() -> None:
    def interrupted() -> None:
        for number, _ in enumerate(iter_parallel([endless] * 4)):
            if number == 10:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_a_worker_may_be_the_one_that_ends_all() -> None:
    """As when Python has it drop a generator that nobody reads any more."""
    ended: list[BaseException | None] = []

    def source() -> Iterator[int]:
        crew.stopped = True
        try:
            crew.end()
        except RuntimeError as error:
            ended.append(error)
        else:
            ended.append(None)
        yield 1

    crew = threads.Workers([source], 1, 1)
    crew.start()
    assert list(crew.items()) == []
    assert ended == [None]


def test_items_that_wait_are_taken_in_groups() -> None:
    workers = threads.Workers([lambda: iter(range(7))], 1, 7)
    workers.start()
    wait_for(lambda: not workers._is_starting)
    for thread in workers._threads:
        thread.join(10)
    assert list(workers.item_groups(3)) == [[0, 1, 2], [3, 4, 5], [6]]
    workers.end()


def test_an_error_ends_the_groups() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("two")

    workers = threads.Workers([items], 1, 1)
    workers.start()
    with pytest.raises(ValueError, match="two"):
        list(workers.item_groups(3))
    workers.stopped = True
    workers.end()


def test_another_thread_than_the_consumer_waits_for_workers_no_longer_than_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Python collects abandoned iterators in any thread, also in one that holds what a worker waits for.
    monkeypatch.setattr("hudi_bridge.common.threads._FOREIGN_WAIT_SECONDS", 0.1)
    started, free = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        started.set()
        free.wait()
        yield 1

    pool = threads.Workers([items], 1, 1)
    pool.start()
    assert started.wait(10)
    pool.stopped = True
    collector = threading.Thread(target=pool.end)
    collector.start()
    collector.join(10)
    assert not collector.is_alive()
    free.set()
    pool.end()
