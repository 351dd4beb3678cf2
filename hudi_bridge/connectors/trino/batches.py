"""How many contested rows one call of a Trino function gets.

A call costs time, and the memory of Trino's Python is small: a call with texts of 2 MiB fails. So small rows go in
batches, and large ones by themselves. A row belongs to a batch by a hash of its key, so that no row has to be counted.
"""

import math

import pyarrow as pa

_MOST_VALUES = 8_000
"""The most values of a batch, on average."""
_CLASSES = ((1_000, 100), (10_000, 10))
"""The longest texts of a base row and its log record together, and the rows of a batch of such rows, on average."""


def batch(schema: pa.Schema, passed: pa.Schema, contested: int) -> str:
    """The SQL expression for the batch of a base row ``b`` and its log record ``l``; ``contested`` counts all rows.

    ``passed`` are the columns that a call gets. The sizes of nested values are not known to SQL: rows with such columns
    make a batch each.
    """
    alone = "CAST(b.place AS varchar) || '/' || CAST(b.record_key AS varchar)"
    if any(pa.types.is_nested(field.type) for field in passed):
        return alone
    texts = [
        f"COALESCE(length({alias}.c{schema.get_field_index(field.name)}), 0)"
        for field in passed
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type) or pa.types.is_fixed_size_binary(field.type)
        for alias in ("b", "l")
    ]
    size = " + ".join(texts) or "0"
    most_rows = max(1, _MOST_VALUES // (2 * max(1, len(passed))))
    cases = (
        f"WHEN {size} <= {longest} THEN"
        f" '{number}:' || CAST(mod(crc32(to_utf8({alone})), {math.ceil(contested / min(rows, most_rows))}) AS varchar)"
        for number, (longest, rows) in enumerate(_CLASSES)
    )
    return f"CASE {' '.join(cases)} ELSE {alone} END"
