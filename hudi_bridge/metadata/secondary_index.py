"""The records of a secondary index: which record keys have a value in a column.

A record is its key alone, ``value$record key``, both with a backslash before each backslash, dollar and null character.
A value that is null is a null character. Since 1.1, the value alone decides on the file group, before it the whole key.

Source: ``SecondaryIndexKeyUtils`` of Hudi.
"""

import re
from collections.abc import Iterable
from typing import Any

import pyarrow.compute as pc

from hudi_bridge.errors import CorruptTableError
from hudi_bridge.merge.arrays import Column
from hudi_bridge.metadata.record_kinds import KEY
from hudi_bridge.metadata.table import MetadataTable

_SPECIAL = re.compile(r"([\\$\0])")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PARTS = re.compile(r"(?P<value>(?:[^\\$]|\\.)*)\$(?P<key>.*)", re.DOTALL)


def keys_with_values(table: MetadataTable, partition: str, values: Iterable[str], *, by_value: bool) -> list[str]:
    """The record keys that have one of the values; ``by_value`` is whether values decide on the file group.

    Raises:
        CorruptTableError: the index is damaged.
        StorageError: it cannot be read.
    """
    prefixes = {value: _SPECIAL.sub(r"\\\1", value) + "$" for value in values}
    # Of what releases hash a part is escaped, and has the dollar, or is not and has not.
    hashed = [(value, prefix, prefix[:-1]) for value, prefix in prefixes.items()] if by_value else None
    found = table.of_prefixes(partition, list(prefixes.values()), hashed)
    return [_record_key(partition, str(key)) for key in found.column(KEY).to_pylist()]


def stored_keys(values: Column, keys: Column) -> Column:
    """The records of an index for the values of rows, as text and not null, and their record keys."""
    parts: list[Any] = [pc.replace_substring_regex(one, r"([\\$\x00])", r"\\\1") for one in (values, keys)]
    joined: Column = pc.binary_join_element_wise(*parts, "$")
    return joined


def _record_key(partition: str, stored: str) -> str:
    parts = _PARTS.fullmatch(stored)
    if parts is None:
        raise CorruptTableError(partition, None, f"a key {stored!r}", "a value, a dollar and a record key")
    return _ESCAPED.sub(r"\1", parts["key"])
