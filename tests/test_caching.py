import threading

from hudi_bridge.caching import cached_property


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
