"""Meta columns that a base file is read with as dictionaries, and their plain form, which a query returns."""

from typing import Any

import pyarrow as pa

# These columns hold few distinct values per file, some of them long. As dictionaries, they are cheap to filter.
DICTIONARY_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")


def without_dictionaries(stored: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with these columns as plain text."""
    for position, field in enumerate(stored.schema):
        if _is_read_as_dictionary(field):
            column: Any = stored.column(position)
            stored = stored.set_column(position, _decoded_field(field), column.dictionary_decode())
    return stored


def decoded_schema(stored: pa.Schema) -> pa.Schema:
    """The schema of ``without_dictionaries``."""
    # The metadata, which may hold a bloom filter of a megabyte, are shared: a new schema would take copies of them.
    for position, field in enumerate(stored):
        if _is_read_as_dictionary(field):
            stored = stored.set(position, _decoded_field(field))
    return stored


def _decoded_field(field: Any) -> Any:  # noqa: ANN401 - of any type
    return field.with_type(field.type.value_type)


def _is_read_as_dictionary(field: Any) -> bool:  # noqa: ANN401 - of any type
    return field.name in DICTIONARY_COLUMNS and pa.types.is_dictionary(field.type)
