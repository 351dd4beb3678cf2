"""Worker threads for one consumer, which end whenever the consumer does, also by Ctrl-C; and calls with a timeout.

KeyboardInterrupt can be raised between any two steps, even while Python code holds a lock. So the consumer and its
workers share only a flag and two queues written in C. ``Thread.start`` holds locks, so another thread calls it: only
the main thread is interrupted.

Workers fill a queue of a limited number of items or of bytes. So memory does not grow with the number of sources
(``iter_parallel``), nor with the size of row groups.

The client of a store may block in C++, where signals are not handled. So ``call_with_timeout`` lets a thread of its own
call it, which is abandoned if the call does not return in time.
"""

import _thread
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain, islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar
from weakref import WeakSet, WeakValueDictionary

if TYPE_CHECKING:
    # The command line chooses how Arrow allocates before it imports it.
    import pyarrow as pa

Number = TypeVar("Number", int, float)
Result = TypeVar("Result")
Item = TypeVar("Item")
Source = Callable[[], Iterator[Item]]
_TIMEOUT_VARIABLE = "HUDI_BRIDGE_STORE_TIMEOUT"
_DEFAULT_TIMEOUT_SECONDS = 120.0
_THREAD_NAME = "hudi-bridge-store"
_POLL_SECONDS = 0.2
"""How soon a waiting thread notices Ctrl-C, a timeout, or that it is abandoned."""
_TURN_POLL_SECONDS = 0.2
_JOIN_POLL_SECONDS = 0.2
_START_POLL_SECONDS = 0.001
"""Starting threads takes less than a millisecond, and is waited for without a lock."""
_ROOM_POLL_SECONDS = 1.0
"""Only for a consumer that was interrupted: others wake the workers that wait for room."""
_FOREIGN_WAIT_SECONDS = 60.0
"""How long ``Workers.end`` waits in another thread than the consumer's, which may hold what the workers wait for."""
REQUESTS_AT_ONCE = 16
"""How many small requests to a store run at the same time. Each mostly waits, so cores do not limit them."""
_CALLS_TO_JUDGE_BY = 8
_WAITING_RATIO = 2
"""Calls wait, and threads pay, if they take more than twice the time that they compute."""
_abandoned_waiters: "WeakSet[threading.Thread]" = WeakSet()
_BYTES_IN_QUEUE = 1 << 24
_BATCHES_IN_QUEUE = 4
_MATERIALIZED_BYTES = 1 << 26
_FIRST_ALONE_SECONDS = 0.2
BatchSource: TypeAlias = "Source[pa.RecordBatch]"


class Turns:
    """Lets a limited number of workers do something at the same time.

    Only workers wait here. A worker that reads with workers of its own has its turn for them, too.
    """

    def __init__(self, at_once: int) -> None:
        """A limit: up to ``at_once`` threads have a turn at the same time."""
        self._own = threading.local()
        self._free: SimpleQueue[None] = SimpleQueue()
        self.add(at_once)

    def add(self, turns: int) -> None:
        """Let more threads have a turn; a consumer that stops lets all who wait go on at once, and see that it has."""
        for _ in range(turns):
            self._free.put(None)

    def is_taken_here(self) -> bool:
        """Whether this thread has its turn."""
        return getattr(self._own, "is_taken", False)

    @contextmanager
    def taken(self, is_stopped: Callable[[], bool]) -> Iterator[bool]:
        """A context in which this thread has its turn; False if ``is_stopped`` while it waits."""
        has_turn = False
        while not has_turn and not is_stopped():
            # The timeout is for a consumer that was interrupted before it could end the waiting.
            with suppress(Empty):
                self._free.get(timeout=_TURN_POLL_SECONDS)
                has_turn = True
        self._own.is_taken = True
        try:
            yield not is_stopped()
        finally:
            self._own.is_taken = False
            if has_turn:
                self.add(1)


class Workers(Generic[Item]):
    """Threads that iterate over sources, one source at a time each, and hand over the items as they come.

    Only the workers use locks. They iterate over ``sources`` in turns, so that waiting there delays them all.

    Use it as ``try: workers.start() ... finally: workers.stopped = True; workers.end()``: the threads are started
    within the block, and the first statement after it sets the flag.
    """

    def __init__(
        self,
        sources: Iterable[Source[Item]],
        workers: int,
        max_waiting: int,
        size_of: Callable[[Item], int] = lambda _: 1,
        turns: Turns | None = None,
        first_alone_seconds: float = 0.0,
    ) -> None:
        """Workers that are not started yet.

        The items that wait for the consumer have a size of ``max_waiting`` at most, or are one; by default, each item
        has the size 1. With ``turns``, a worker takes one for each item, but not while it waits for the consumer.
        One worker works alone for ``first_alone_seconds``, or until the consumer asks for a second item: the first one
        comes sooner, and nothing was done in vain if it is all that is wanted.
        """
        self.stopped = False
        self._consumer = threading.get_ident()
        self._is_starting = False
        # An item wakes the thread that waits for the start; the flag alone says that it is over.
        self._started: SimpleQueue[None] = SimpleQueue()
        self._sources = iter(sources)
        self._sources_lock = threading.Lock()
        self._threads = [
            HelperThread(partial(self._work, number), f"hudi-bridge-{number}", lambda: self.stopped)
            for number in range(workers)
        ]
        self._first_alone_seconds = first_alone_seconds
        self._unreleased = max(0, workers - 1) if first_alone_seconds else 0
        # An item for each worker that waited for the first one.
        self._released: SimpleQueue[None] = SimpleQueue()
        # A worker that ends hands over None.
        self._handed_over: SimpleQueue[tuple[Item, int] | BaseException | None] = SimpleQueue()
        self._max_waiting = max_waiting
        self._size_of = size_of
        self._turns = None if turns is None or turns.is_taken_here() else turns
        self._waiting = 0
        self._waiting_lock = threading.Lock()
        # The sizes of items that the consumer has taken.
        self._taken: SimpleQueue[int] = SimpleQueue()

    def start(self) -> None:
        """Start all workers."""
        try:
            self._is_starting = True
            _thread.start_new_thread(self._start, ())
        except BaseException:
            # After an interrupt, the workers may have started all the same; they end by themselves.
            self._is_starting = False
            raise

    def items(self) -> Iterator[Item]:
        """The items of all sources; raises the first error of any."""
        for group in self.item_groups(1):
            yield group.pop()
            self._release_all()

    def item_groups(self, most: int) -> Iterator[list[Item]]:
        """The items in groups: all that wait at the time, one at least and ``most`` at most; raises like ``items``."""
        working = len(self._threads)
        while working:
            group: list[Item] = []
            while working and len(group) < most:
                try:
                    # Python does not notice a Ctrl-C that comes just before it begins to wait, until the wait ends.
                    handed_over = self._handed_over.get(block=not group, timeout=_POLL_SECONDS)
                except Empty:
                    break
                if handed_over is None:
                    working -= 1
                elif isinstance(handed_over, BaseException):
                    raise handed_over
                else:
                    group.append(handed_over[0])
                    self._taken.put(handed_over[1])
            handed_over = None
            if group:
                yield group

    def end(self, urge: Callable[[], object] = bool) -> None:
        """Wait until all workers have ended, each before its next item.

        An interrupt ends the waiting; the workers then end by themselves. ``urge`` is called repeatedly while waiting.
        Any other thread than the consumer's waits for a limited time only: Python may collect an abandoned iterator in
        any thread, also in one that holds what the workers wait for.
        """
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            abandon_waiting(self._threads)
        self._release_all()
        for _ in self._threads:
            self._taken.put(0)
        while self._is_starting:
            with suppress(Empty):
                self._started.get(timeout=_START_POLL_SECONDS)
        until = math.inf if threading.get_ident() == self._consumer else time.monotonic() + _FOREIGN_WAIT_SECONDS
        # One of the workers may itself be where an iterator is collected; no thread can join itself.
        for thread in set(self._threads) - {threading.current_thread()}:
            while thread.is_alive() and time.monotonic() < until:
                urge()
                thread.join(_JOIN_POLL_SECONDS)

    def _start(self) -> None:
        try:
            for thread in self._threads:
                thread.start()
        except BaseException as error:  # noqa: BLE001 - handed over to the consumer, who raises it
            self._handed_over.put(error)
        finally:
            self._is_starting = False
            self._started.put(None)

    def _release_all(self) -> None:
        while self._unreleased:
            self._unreleased -= 1
            self._released.put(None)

    def _work(self, number: int) -> None:
        try:
            if number and self._first_alone_seconds:
                with suppress(Empty):
                    self._released.get(timeout=self._first_alone_seconds)
            while (source := self._next_source()) is not None:
                for item in self._in_turn(source()):
                    size = self._size_of(item)
                    if not self._wait_for_room(size):
                        return
                    self._handed_over.put((item, size))
                    del item
        except BaseException as error:  # noqa: BLE001 - handed over to the consumer, who raises it
            self._handed_over.put(error)
        finally:
            self._handed_over.put(None)

    def _in_turn(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items, each made in a turn."""
        if self._turns is None:
            yield from items
            return
        while True:
            with self._turns.taken(lambda: self.stopped) as has_turn:
                item = next(items, self) if has_turn else self
            if isinstance(item, Workers):
                return
            yield item
            del item

    def _wait_for_room(self, size: int) -> bool:
        """Wait for room for one more item; False if stopped."""
        with self._waiting_lock:
            while not self.stopped and self._waiting and self._waiting + size > self._max_waiting:
                # The timeout is for a consumer that was interrupted before it could end the waiting.
                with suppress(Empty):
                    self._waiting -= self._taken.get(timeout=_ROOM_POLL_SECONDS)
            self._waiting += size
            return not self.stopped

    def _next_source(self) -> Source[Item] | None:
        with self._sources_lock:
            return None if self.stopped else next(self._sources, None)


def iter_parallel(
    sources: Sequence[BatchSource],
    *,
    use_threads: bool = True,
    at_once: int | None = None,
    first_alone: bool = False,
) -> "Generator[pa.RecordBatch, None, None]":
    """Yields the batches of all sources; ``at_once`` sources are read at the same time. An error in one stops all.

    With ``first_alone``, only one source is read until its first batch, or for a short time: sources that share the
    cores and Python's lock would each yield their first batch later.

    If the consumer stops early, workers stop at their next batch. All parallel reads of the process together keep no
    more workers busy than there are cores.
    """
    at_once = most_at_once(len(sources)) if at_once is None else at_once
    if not use_threads or at_once == 1:
        for source in sources:
            yield from source()
        return
    alone_seconds = _FIRST_ALONE_SECONDS if first_alone else 0.0
    yield from _from_workers(
        Workers(sources, at_once, _BYTES_IN_QUEUE, _size_in_queue, turns_of_process(), alone_seconds)
    )


@cache
def turns_of_process() -> Turns:
    """Those of all reads of several splits: a program may have many at the same time."""
    return Turns(os.cpu_count() or 1)


def most_at_once(sources: int) -> int:
    """The number of sources to read at the same time: at most one for each core."""
    return max(1, min(sources, os.cpu_count() or 1))


def prefetch_one(source: Source[Item]) -> Generator[Item, None, None]:
    """Yields the items of a source; a background thread reads one item ahead."""
    return _from_workers(Workers([source], 1, 1))


@contextmanager
def prefetch(
    batches: "Iterator[pa.RecordBatch]", limit: int | None = None, *, materialized: bool = False
) -> "Iterator[Iterator[pa.RecordBatch]]":
    """A context with the same batches; a background thread starts to read them at once, as far as its queue has room.

    It reads up to ``limit`` batches, by default all. The queue has more room if the consumer keeps all batches
    (``materialized``).
    """
    room = _MATERIALIZED_BYTES if materialized else _BYTES_IN_QUEUE
    workers = Workers([lambda: islice(batches, limit)], 1, room, _size_in_queue)
    try:
        workers.start()
        yield chain(workers.items(), batches)
    finally:
        workers.stopped = True
        workers.end()


def _from_workers(workers: Workers[Item]) -> Generator[Item, None, None]:
    try:
        workers.start()
        yield from workers.items()
    finally:
        workers.stopped = True
        workers.end()


def _size_in_queue(batch: "pa.RecordBatch") -> int:
    """The bytes of a batch, but at least a share of the queue, which limits the number of batches as well."""
    return max(batch.nbytes, _BYTES_IN_QUEUE // _BATCHES_IN_QUEUE)


def map_in_threads(function: Callable[[Item], Result], items: Iterable[Item], max_threads: int) -> list[Result]:
    """The results for all items, in their order; raises the first error of any."""
    sources = [partial(_numbered, function, number, item) for number, item in enumerate(items)]
    if len(sources) <= 1 or max_threads == 1:
        return [result for source in sources for _, result in source()]
    results: dict[int, Result] = {}
    workers = Workers(sources, min(max_threads, len(sources)), len(sources))
    try:
        workers.start()
        results.update(workers.items())
    finally:
        workers.stopped = True
        workers.end()
    return [results[number] for number in range(len(sources))]


def run_at_once(*calls: Callable[[], object]) -> list[object]:
    """The results of some calls, each made by a thread; raises the first error of any."""
    return map_in_threads(lambda call: call(), calls, len(calls))


def map_while_waiting(function: Callable[[Item], Result], items: Sequence[Item], max_threads: int) -> list[Result]:
    """As ``map_in_threads``; but if the first calls hardly wait, all are made in this thread.

    Threads of short calls that hold Python's lock only get in each other's way.
    """
    wall, own = time.perf_counter(), time.thread_time()
    first = [function(item) for item in items[:_CALLS_TO_JUDGE_BY]]
    waited = time.perf_counter() - wall > _WAITING_RATIO * (time.thread_time() - own)
    rest = items[_CALLS_TO_JUDGE_BY:]
    return first + map_in_threads(function, rest, max_threads if waited else 1)


def _numbered(function: Callable[[Item], Result], number: int, item: Item) -> Iterator[tuple[int, Result]]:
    yield number, function(item)


class KeyedLocks:
    """A lock for each key, which exists as long as a thread holds it or waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: WeakValueDictionary[Hashable, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def locked(self, key: Hashable) -> Iterator[None]:
        """A context that one thread at a time is in for a key."""
        with self._lock:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = threading.Lock()
        with lock:
            yield


def call_with_timeout(seconds: float, call: Callable[[], Result]) -> Result:
    """The result of the call.

    Raises:
        TimeoutError: the call has not returned in time.
        Exception: what the call raises.
    """
    returned: list[Result] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            failed.append(error)

    thread = threading.Thread(target=work, name=_THREAD_NAME, daemon=True)
    thread.start()
    end = time.monotonic() + seconds
    while thread.is_alive() and (left := end - time.monotonic()) > 0 and not _is_abandoned():
        thread.join(min(left, _POLL_SECONDS))
    if failed:
        raise failed[0]
    if not returned:
        raise TimeoutError(f"no answer within {seconds:g} seconds")
    return returned[0]


def timeout_seconds() -> float:
    """The timeout of one request to a store: HUDI_BRIDGE_STORE_TIMEOUT, or 120 seconds."""
    return number_in(_TIMEOUT_VARIABLE, _DEFAULT_TIMEOUT_SECONDS, least=0.001)


def number_in(variable: str, default: Number, *, least: Number) -> Number:
    """The number in a variable, but at least ``least``; the default if it holds no number of that kind."""
    kind = type(default)
    try:
        number = kind(os.environ[variable])
    except (KeyError, ValueError):
        return default
    return default if math.isnan(number) else max(least, number)


class HelperThread(threading.Thread):
    """A daemon thread that works for the thread that makes it, and stops waiting whenever that one does.

    ``is_stopped`` tells whether its work is not needed any more.
    """

    def __init__(self, target: Callable[[], object], name: str, is_stopped: Callable[[], bool]) -> None:
        super().__init__(target=target, name=name, daemon=True)
        self.owner = threading.current_thread()
        self.is_stopped = is_stopped


def pause(seconds: float) -> bool:
    """Wait; False, at once, if the work of this thread is not needed any more."""
    end = time.monotonic() + seconds
    while not _is_abandoned() and not _is_stopped():
        left = end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, _POLL_SECONDS))
    return False


def abandon_waiting(threads: Iterable[threading.Thread]) -> None:
    """Make these threads and their helpers stop waiting, as their results are not needed any more."""
    _abandoned_waiters.update(threads)


def has_abandoned_call() -> bool:
    """Whether a call that timed out or was interrupted is still running."""
    return any(thread.name == _THREAD_NAME for thread in threading.enumerate())


def _this_thread_and_owners() -> Iterator[threading.Thread]:
    """The current thread, the thread that it works for, and so on."""
    thread = threading.current_thread()
    yield thread
    while isinstance(thread, HelperThread):
        thread = thread.owner
        yield thread


def _is_abandoned() -> bool:
    return any(thread in _abandoned_waiters for thread in _this_thread_and_owners())


def _is_stopped() -> bool:
    return any(isinstance(thread, HelperThread) and thread.is_stopped() for thread in _this_thread_and_owners())


# A fork has none of the threads that had taken turns.
os.register_at_fork(after_in_child=turns_of_process.cache_clear)
