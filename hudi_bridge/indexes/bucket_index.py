"""The bucket index: a hash of the record key gives the bucket of a record, and the file ids of a bucket begin with it.

The properties of a table do not name the number of buckets; a user's options do.

Source: ``BucketIdentifier`` of Hudi.
"""

import re
from dataclasses import dataclass

_INT32 = 0xFFFFFFFF
_INT32_MAX = 0x7FFFFFFF
_BUCKET = re.compile(r"[0-9]{8}(?=-)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketIndex:
    """A bucket index with a fixed number of buckets, by the hash of some record key fields."""

    buckets: int
    hash_fields: tuple[str, ...]

    def bucket_of(self, record_key: str) -> int | None:
        """The bucket of a record; None where releases of Hudi differ in how they take the key apart."""
        values = [record_key]
        if ":" in record_key:
            parts = [part.split(":") for part in record_key.split(",")]
            if any(len(part) != 2 or part[1].startswith("__") for part in parts):  # noqa: PLR2004 - a name and a value
                return None
            fields = {name: value for name, value in parts}  # noqa: C416 - the parts are lists
            if not fields.keys() >= set(self.hash_fields):
                return None
            values = [fields[name] for name in self.hash_fields]
        hashed = 1
        for value in values:
            hashed = 31 * hashed + _java_hash(value) & _INT32
        return (hashed & _INT32_MAX) % self.buckets


def bucket_of_file_id(file_id: str) -> int | None:
    """The bucket that a file id begins with; None if it does not look like one of a bucket index."""
    found = _BUCKET.match(file_id)
    return None if found is None else int(found[0])


def _java_hash(text: str) -> int:
    """``String.hashCode`` of Java, over UTF-16 code units, as an unsigned number."""
    hashed = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = 31 * hashed + (high << 8 | low) & _INT32
    return hashed
