"""Puts small log blocks together that follow one another, to be decoded at once.

What a step costs besides the records, such as a call of Arrow or NumPy, would be most of the time for each of them.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator

from hudi_bridge.logformat.block import LogBlock

_SMALL_BYTES = 1 << 18
"""The size of the content of a small block, at most."""
_RUN_BYTES = 1 << 21
"""The size of the contents of small blocks that are put together, at most."""


def runs(blocks: deque[LogBlock], likeness: Callable[[LogBlock], Hashable]) -> Iterator[list[LogBlock]]:
    """The blocks in their order: small ones together, if they have an equal ``likeness`` that is not None, or one.

    Takes them out of ``blocks`` as they are given.
    """
    while blocks:
        run = [blocks.popleft()]
        size = run[0].content.size
        alike = likeness(run[0]) if size <= _SMALL_BYTES else None
        while alike is not None and blocks and likeness(blocks[0]) == alike:
            more = blocks[0].content.size
            if more > _SMALL_BYTES or size + more > _RUN_BYTES:
                break
            run.append(blocks.popleft())
            size += more
        yield run
