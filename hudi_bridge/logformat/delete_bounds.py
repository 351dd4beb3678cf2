"""Finds where the deletes of a large delete block are.

Nothing says how long a delete is, so they are stepped over one after another. In a large block, many places are
started from at once: at each, the delete that begins next is guessed. The deletes of a file group have one partition
path, which stands between the record key and the ordering value: what comes after these is the next delete. Where the
deletes from one place lead to the next place, the guess was right.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat.avro_cursors import Cursors, DatumBytes, Ints
from hudi_bridge.logformat.avro_items import step_over
from hudi_bridge.logformat.avro_single import value_step
from hudi_bridge.schema.avro_types import AvroRecord

_DELETES_OF_CHAIN = 16
# With fewer, stepping over the deletes one after another takes less time.
_MIN_CHAINS = 32
_MAX_CHAINS = 1024


def delete_bounds(payload: pa.Buffer, delete: AvroRecord, path: str, offset: int) -> tuple[Ints, Ints] | None:
    """Where each delete of a list begins and ends; None if the list is small or cannot be read like this.

    ``delete`` is the record of a key, a partition path and an ordering value; ``path`` and ``offset`` are those of the
    block.
    """
    source = DatumBytes.of(payload, np.zeros(1, np.int64), path, offset)
    try:
        head = Cursors(source, np.zeros(1, np.int64), np.full(1, payload.size, np.int64))
        count, first, end = int(head.varints("a count")[0]), int(head.pos[0]), payload.size - 1
        # One block of all deletes, and the end of the list. A damaged list may announce more than it has bytes for.
        if not _MIN_CHAINS * _DELETES_OF_CHAIN <= count <= end - first or source.data[end] != 0:
            return None
        starts = np.unique([first, *_likely_starts(payload.to_pybytes(), source, delete, count, first, end)])
        if starts.size < _MIN_CHAINS:
            return None
        found = _starts_of_chains(source, delete, starts, count, end)
    except CorruptLogFileError:
        # Of a wrong guess; if the block is damaged, whoever steps over all deletes tells where.
        return None
    return None if found is None else (found, np.append(found[1:], end))


def _likely_starts(
    content: bytes, source: DatumBytes, delete: AvroRecord, count: int, first: int, end: int
) -> Iterator[int]:
    """Where deletes may begin, one place in each of some parts of the list."""
    over_key, over_path, over_ordering = (value_step(field.type, source) for field in delete.fields)
    after_key = over_key(first, end)
    after_path = over_path(after_key, end)
    # With the first byte of the ordering value, which says of what kind it is.
    mark = content[after_key : after_path + 1]
    chains = min(count // _DELETES_OF_CHAIN, _MAX_CHAINS)
    part = (end - first) // chains
    for begin in range(first + part, end - part, part):
        place = content.find(mark, begin, begin + part)
        if place >= 0:
            yield over_ordering(place + len(mark) - 1, end)


def _starts_of_chains(source: DatumBytes, delete: AvroRecord, starts: Ints, count: int, end: int) -> Ints | None:
    """Where all deletes begin, if those from each start lead to the next one and are ``count`` together."""
    stops = np.append(starts[1:], end)
    cursors = Cursors(source, starts, np.full(starts.size, end, np.int64))
    found, number = [starts], starts.size
    while len(cursors) >= _MIN_CHAINS:
        step_over(delete, cursors)
        left = np.flatnonzero(cursors.pos != stops)
        cursors, stops = cursors.select(left), stops[left]
        found.append(cursors.pos)
        number += left.size
        if (cursors.pos > stops).any() or number > count:
            return None
    # The longest chains, of which the next start is known already.
    step = value_step(delete, source)
    for position, stop in zip(cursors.pos.tolist(), stops.tolist(), strict=True):
        rest = []
        place = step(position, end)
        while place < stop:
            rest.append(place)
            place = step(place, end)
        if place != stop:
            return None
        found.append(np.array(rest, np.int64))
    every = np.sort(np.concatenate(found))
    return every if every.size == count else None
