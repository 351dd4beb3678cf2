"""Record keys to look for, in the forms in which indexes ask for them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.indexes.bloom_filter import HashedKeys
from hudi_bridge.merge.log_records import key_hashes

KeyHashes = npt.NDArray[np.uint64]

# Below this character, the orders of UTF-8 bytes and of UTF-16 code units are the same.
_FIRST_THAT_DIFFERS = "\ue000"


@dataclass(frozen=True, slots=True)
class WantedKeys:
    """Distinct record keys, ``texts``, in the order of their UTF-8 bytes.

    ``hashed`` has their hashes for Bloom filters in the same order; ``hashes`` are those of ``key_hashes``, ascending.
    ``is_ordered`` is whether their order is also that of UTF-16 code units.
    """

    texts: list[str]
    hashed: HashedKeys
    hashes: KeyHashes
    is_ordered: bool

    @classmethod
    def of(cls, keys: Iterable[str]) -> "WantedKeys":
        """The given keys."""
        texts = sorted(set(keys))
        hashes = np.sort(key_hashes(pa.array(texts, pa.string())))
        return cls(texts, HashedKeys(texts), hashes, all(map(has_one_order, texts)))

    def any_in(self, hashes: KeyHashes) -> bool:
        """Whether one of the keys has one of the ascending hashes."""
        places = np.searchsorted(hashes, self.hashes)
        inside = places < len(hashes)
        return bool((hashes[places[inside]] == self.hashes[inside]).any())


def has_one_order(text: str) -> bool:
    """Whether a text compares with others like it in the same way by UTF-8 bytes as by UTF-16 code units."""
    return text.isascii() or max(text) < _FIRST_THAT_DIFFERS
