"""Record keys divided into parts of about equal size, so that log records can be merged a part at a time."""

import numpy as np
import pyarrow as pa

from hudi_bridge.merge.arrays import Column, Positions

_KEYS_AT_ONCE = 1 << 15
_MIXER = np.uint64(0x9E3779B97F4A7C15)


def part_of_keys(keys: Column, parts: int) -> Positions:
    """The part, from 0 to ``parts`` - 1, of each key; equal keys are in the same part."""
    found = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        hashes = _hashes(keys.slice(start, _KEYS_AT_ONCE).cast(pa.large_binary()))
        found.append((hashes % np.uint64(parts)).astype(np.int64))
    return np.concatenate(found)


def _hashes(keys: Column) -> Positions:
    """A hash of the bytes of each key: their sum, each times the power of an odd number that belongs to its place."""
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(memoryview(offset_buffer or b""), dtype=np.int64)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(offsets)
    used = np.frombuffer(memoryview(data_buffer or b""), dtype=np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
    starts = offsets[:-1] - offsets[0]
    place = np.arange(len(used)) - np.repeat(starts, lengths)
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(int(lengths.max(initial=0)), _MIXER, dtype=np.uint64))
        sums = np.concatenate([[np.uint64(0)], np.cumsum((used + np.uint64(1)) * powers[place])])
        hashes = sums[starts + lengths] - sums[starts]
        hashes = (hashes ^ (hashes >> np.uint64(32))) * _MIXER
    return np.asarray(hashes ^ (hashes >> np.uint64(29)))
