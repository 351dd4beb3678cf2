import pickle
import threading

from hudi_bridge.common.caching import BoundedCache, cached_property


class Slow:
    def __init__(self, barrier: threading.Barrier | None = None) -> None:
        self.barrier = barrier
        self.calls = 0

    @cached_property
    def value(self) -> int:
        self.calls += 1
        if self.barrier is not None:
            self.barrier.wait(timeout=10)
        return 7


def test_a_value_is_computed_once() -> None:
    slow = Slow()
    assert (slow.value, slow.value, slow.calls) == (7, 7, 1)


def test_instances_compute_side_by_side() -> None:
    barrier = threading.Barrier(2)
    values: list[int] = []
    threads = [threading.Thread(target=lambda: values.append(Slow(barrier).value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [7, 7]


def test_a_full_cache_drops_what_was_not_used_for_the_longest_time() -> None:
    cache = BoundedCache(100)
    for name in "abc":
        cache.put(name, name.upper(), 30)
    assert cache.get("a") == "A"
    cache.put("d", "D", 40)
    assert [cache.get(name) for name in "abcd"] == ["A", None, "C", "D"]
    cache.put("d", "new", 10)
    cache.put("e", "E", 30)
    assert [cache.get(name) for name in "acde"] == ["A", "C", "new", "E"]
    cache.put("whale", "", 101)
    assert [cache.get(name) for name in ("a", "whale")] == [None, None]


def test_a_copy_of_a_cache_is_empty() -> None:
    cache = BoundedCache(100)
    cache.put("a", "A", 30)
    assert pickle.loads(pickle.dumps(cache)).get("a") is None
