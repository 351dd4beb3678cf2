"""Batches of several sources at once: their order, their errors, their end."""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_bridge.common.threads import Turns, iter_parallel, prefetch, prefetch_one, turns_of_process
from hudi_bridge.errors import CorruptLogFileError

Source = Callable[[], Iterator[pa.RecordBatch]]
DAMAGE = CorruptLogFileError("a.log", 7, "nothing", "something")


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"n": [number]})


def numbers(*values: int) -> Source:
    return lambda: iter([batch(value) for value in values])


def read(sources: list[Source], **options: Any) -> list[int]:
    return [item.column("n")[0].as_py() for item in iter_parallel(sources, **options)]


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("hudi-bridge")]


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("hudi_bridge.common.threads.os.cpu_count", lambda: 4)
    turns_of_process.cache_clear()
    yield
    turns_of_process.cache_clear()
    assert workers() == []


@pytest.mark.parametrize("use_threads", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_every_batch_of_every_source_arrives_once(count: int, use_threads: bool) -> None:
    sources = [numbers(*range(source * 10, source * 10 + source % 4)) for source in range(count)]
    expected = [number for source in range(count) for number in range(source * 10, source * 10 + source % 4)]
    assert sorted(read(sources, use_threads=use_threads)) == expected


def test_without_threads_sources_follow_each_other_here() -> None:
    seen = []

    def source() -> Iterator[pa.RecordBatch]:
        seen.append(threading.current_thread())
        yield batch(1)

    assert read([source, numbers(2), source], use_threads=False) == [1, 2, 1]
    assert set(seen) == {threading.current_thread()}


def test_sources_are_read_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=10)

    def source() -> Iterator[pa.RecordBatch]:
        both.wait()
        yield batch(1)

    assert read([source, source]) == [1, 1]


def test_the_first_batch_may_be_read_alone_until_another_one_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_bridge.common.threads._FIRST_ALONE_SECONDS", 60.0)
    started = []

    def source(number: int) -> Source:
        def batches() -> Iterator[pa.RecordBatch]:
            started.append(number)
            yield batch(number)
            while number == 0 and len(started) < 4:
                time.sleep(0.001)
            yield batch(number)

        return batches

    actual = iter_parallel([source(number) for number in range(4)], first_alone=True)
    assert next(actual).column("n")[0].as_py() == 0
    assert started == [0]
    assert sorted(row.column("n")[0].as_py() for row in actual) == [0, 1, 1, 2, 2, 3, 3]
    assert sorted(started) == [0, 1, 2, 3]


def test_sources_do_not_wait_long_for_the_first_one() -> None:
    others = threading.Event()

    def first() -> Iterator[pa.RecordBatch]:
        assert others.wait(10)
        yield batch(0)

    def other() -> Iterator[pa.RecordBatch]:
        others.set()
        yield batch(1)

    assert sorted(read([first, other], first_alone=True)) == [0, 1]


def test_nothing_else_is_begun_for_a_consumer_of_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_bridge.common.threads._FIRST_ALONE_SECONDS", 60.0)
    started = []

    def other() -> Iterator[pa.RecordBatch]:
        started.append(1)
        yield batch(1)

    with closing(iter_parallel([numbers(*range(1000)), other, other], first_alone=True)) as batches:
        next(batches)
    assert started == []


@pytest.mark.parametrize("use_threads", [True, False])
@pytest.mark.parametrize("error", [DAMAGE, KeyboardInterrupt("stop"), ZeroDivisionError("bug")])
def test_errors_arrive_as_they_are(error: BaseException, use_threads: bool) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise error

    with pytest.raises(type(error)) as caught:
        read([broken, numbers(*range(100)), numbers(*range(100))], use_threads=use_threads)
    assert caught.value is error


def test_errors_arrive_through_a_record_batch_reader() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise DAMAGE

    reader = pa.RecordBatchReader.from_batches(batch(0).schema, iter_parallel([broken, numbers(2)]))
    with pytest.raises(CorruptLogFileError) as caught:
        reader.read_all()
    assert (caught.value.path, caught.value.offset) == ("a.log", 7)


def test_a_consumer_that_stops_early_stops_the_workers() -> None:
    made = []

    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            made.append(1)
            yield batch(1)

    batches = iter_parallel([endless, endless, endless])
    assert len(list(islice(batches, 5))) == 5
    batches.close()
    assert workers() == []
    produced = len(made)
    time.sleep(0.02)
    assert len(made) == produced


def test_a_slow_consumer_slows_the_workers_down() -> None:
    made = []

    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            made.append(1)
            yield batch(1)

    batches = iter_parallel([endless, endless])
    next(batches)
    time.sleep(0.05)
    assert len(made) <= 10
    batches.close()


def test_a_source_that_is_left_early_is_closed() -> None:
    opened, closed = [], []

    def source() -> Iterator[pa.RecordBatch]:
        opened.append(1)
        try:
            while True:
                yield batch(1)
        finally:
            closed.append(1)

    batches = iter_parallel([source, source])
    next(batches)
    batches.close()
    assert closed == opened != []


def test_nothing_is_read_before_the_first_batch_is_asked_for() -> None:
    started = []

    def source() -> Iterator[pa.RecordBatch]:
        started.append(1)
        yield batch(1)

    batches = iter_parallel([source, source])
    assert not started
    assert not workers()
    assert len(list(batches)) == 2


@pytest.mark.parametrize("is_stopped_early", [False, True])
def test_the_end_is_seen_at_once(*, is_stopped_early: bool) -> None:
    def slow() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        time.sleep(0.005)

    def seconds() -> float:
        began = time.perf_counter()
        batches = iter_parallel([slow, slow])
        next(batches)
        if is_stopped_early:
            batches.close()
        assert len(list(batches)) == (0 if is_stopped_early else 1)
        return time.perf_counter() - began

    # The best of ten, as a busy machine makes any of them slow.
    assert min(seconds() for _ in range(10)) < 0.025


def test_batches_are_not_held_back() -> None:
    table = pa.table({"n": list(range(1000))})
    dead: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        one = table.to_batches()[0]
        weakref.finalize(one, dead.append, 1)
        yield one

    batches = iter_parallel([source] * 20)
    for _ in range(20):
        next(batches)
    assert len(dead) >= 18
    assert list(batches) == []


def test_a_thread_runs_few_items_ahead_and_no_further() -> None:
    made = []

    def source() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    items = prefetch_one(source)
    assert next(items) == 0
    time.sleep(0.02)
    assert len(made) <= 3
    assert list(items) == list(range(1, 100))


def test_an_error_ahead_comes_after_the_items_before_it() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise DAMAGE

    items = prefetch_one(source)
    assert next(items) == 1
    with pytest.raises(CorruptLogFileError):
        next(items)


@pytest.mark.parametrize("most", [None, 1, 2])
def test_the_first_batch_is_made_while_the_consumer_does_something_else(most: int | None) -> None:
    made = threading.Event()

    def source() -> Iterator[pa.RecordBatch]:
        made.set()
        yield batch(1)
        yield batch(2)

    with prefetch(source(), most) as batches:
        assert made.wait(5)
        assert list(batches) == [batch(1), batch(2)]
    with prefetch(iter(()), most) as nothing:
        assert list(nothing) == []


@pytest.mark.parametrize(("rows", "most"), [(1, 5), (1 << 20, 3)])
def test_a_background_thread_makes_a_limited_number_of_batches_and_of_bytes(rows: int, most: int) -> None:
    made = []

    def source() -> Iterator[pa.RecordBatch]:
        for number in range(40):
            made.append(number)
            yield pa.record_batch({"n": np.full(rows, number)})

    with prefetch(source()) as batches:
        until = time.monotonic() + 10
        while len(made) < most and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(0.01)
        # One more waits for room.
        assert len(made) == most
        assert [item.column("n")[0].as_py() for item in batches] == list(range(40))


def test_an_error_in_the_first_batch_reaches_the_consumer() -> None:
    def source() -> Iterator[pa.RecordBatch]:
        raise DAMAGE
        yield batch(1)

    with pytest.raises(CorruptLogFileError), prefetch(source()) as batches:
        next(batches)


def test_many_reads_at_once_keep_as_many_workers_busy_as_there_are_cores() -> None:
    busy, most, lock = 0, 0, threading.Lock()

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal busy, most
        for number in range(3):
            with lock:
                busy += 1
                most = max(most, busy)
            time.sleep(0.005)
            with lock:
                busy -= 1
            yield batch(number)

    actual: list[list[int]] = []
    readers = [threading.Thread(target=lambda: actual.append(read([source] * 6))) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [sorted(numbers) for numbers in actual] == [sorted([0, 1, 2] * 6)] * 4
    assert most == 4


def test_a_read_that_waits_for_its_consumer_leaves_its_turn_to_others() -> None:
    size = np.zeros(1 << 24, np.uint8)

    def large() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield pa.record_batch({"n": size})

    waiting = [iter_parallel([large] * 4) for _ in range(3)]
    for item in waiting:
        next(item)
    assert sorted(read([numbers(1), numbers(2)])) == [1, 2]
    for item in waiting:
        item.close()


def test_a_source_may_itself_read_in_parallel() -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield from iter_parallel([numbers(1), numbers(2)])

    assert sorted(read([source] * 8)) == sorted([1, 2] * 8)


def test_who_waits_for_a_turn_in_vain_stops_when_the_consumer_does() -> None:
    released = threading.Event()

    def busy() -> Iterator[pa.RecordBatch]:
        yield batch(0)
        released.wait(10)
        yield batch(1)

    one, other = iter_parallel([busy] * 4), iter_parallel([busy] * 4)
    for _ in range(4):
        next(one)
    threading.Timer(0.3, released.set).start()
    assert [item.num_rows for item in islice(other, 1)] == [1]
    other.close()
    one.close()


def test_a_fork_has_all_turns() -> None:
    turns = turns_of_process()
    with turns.taken(lambda: False) as has_turn:
        assert has_turn
        assert turns.is_taken_here()
        process = os.fork()
        if process == 0:
            os._exit(0 if turns_of_process() is not turns else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert not turns.is_taken_here()


def test_who_waits_for_a_turn_goes_on_at_once_if_nobody_needs_what_is_done_in_it() -> None:
    turns, stopped = Turns(1), threading.Event()
    given = []

    def wait() -> None:
        with turns.taken(stopped.is_set) as has_turn:
            given.append(has_turn)

    with turns.taken(stopped.is_set):
        waiting = threading.Thread(target=wait)
        waiting.start()
        stopped.set()
        turns.add(1)
        waiting.join(10)
    assert given == [False]
