"""Table names for clients, with suffixes for the query type and the instant.

    trips                              the snapshot
    trips$ro    trips__ro              read optimized: base files alone
    trips@TIME  trips__at_TIME         as of an instant, in any format that Hudi accepts
    trips__ro__at_TIME                 both

Trino reserves ``$`` and ``@``, hence the second forms.
"""

import os
import re
from dataclasses import dataclass

from hudi_bridge.config import QueryType

_MOST_BYTES = 255
"""The longest file name that common file systems allow."""
_OF_HUDI = ".hoodie"
_SEPARATORS = frozenset("/\0\x1f" + os.sep)
_NAME = re.compile(r"(?P<table>.+?)(?P<read_optimized>(?:\$|__)ro)?(?:(?:@|__at_)(?P<as_of>[^@]+))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A parsed name: the table, the query type and the instant, if any."""

    table: str
    query_type: QueryType
    as_of: str | None


def parse_table_name(name: str) -> TableName:
    """Splits a name into the table and its suffixes."""
    match = _NAME.fullmatch(name)
    if match is None:
        return TableName(table=name, query_type=QueryType.SNAPSHOT, as_of=None)
    query_type = QueryType.READ_OPTIMIZED if match["read_optimized"] else QueryType.SNAPSHOT
    return TableName(table=match["table"], query_type=query_type, as_of=match["as_of"])


def is_visible_folder_name(name: str) -> bool:
    """Whether a name is that of a visible child folder: one that a table may have, without a leading dot."""
    return is_table_folder_name(name) and not name.startswith(".")


def is_table_folder_name(name: str) -> bool:
    """Whether a table may have the name: one level, no control characters, and not the folder of Hudi's own files.

    Those that begin with a dot are found by name, and not listed.
    """
    if name in ("", ".", "..", _OF_HUDI) or set(name) & _SEPARATORS or not name.isprintable():
        return False
    return len(name.encode()) <= _MOST_BYTES
