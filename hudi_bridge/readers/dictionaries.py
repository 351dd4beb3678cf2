"""Meta columns that a base file is read with as dictionaries, and their plain form, which a query returns."""

from typing import Any

import pyarrow as pa

# These columns hold few distinct values per file, some of them long. As dictionaries, they are cheap to filter.
DICTIONARY_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")


class PlainColumns:
    """Gives these columns as plain text. Batches of which all rows have the same text share it."""

    def __init__(self) -> None:
        self._repeated: dict[str, tuple[str, Any]] = {}

    def without_dictionaries(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows, with these columns as plain text."""
        for position, field in enumerate(stored.schema):
            if _is_read_as_dictionary(field):
                column = self._plain(field.name, stored.column(position))
                stored = stored.set_column(position, _decoded_field(field), column)
        return stored

    def _plain(self, name: str, column: Any) -> Any:  # noqa: ANN401 - an array with a dictionary
        if len(column.dictionary) != 1 or column.null_count or not column.dictionary[0].is_valid:
            return column.dictionary_decode()
        text = column.dictionary[0].as_py()
        # Other threads may put other arrays there.
        known, repeated = self._repeated.get(name, (None, ()))
        if known != text or len(repeated) < len(column):
            repeated = pa.repeat(column.dictionary[0], len(column))
            self._repeated[name] = text, repeated
        return repeated[: len(column)]


def decoded_schema(stored: pa.Schema) -> pa.Schema:
    """The schema with plain text."""
    # The metadata, which may hold a bloom filter of a megabyte, are shared: a new schema would take copies of them.
    for position, field in enumerate(stored):
        if _is_read_as_dictionary(field):
            stored = stored.set(position, _decoded_field(field))
    return stored


def _decoded_field(field: Any) -> Any:  # noqa: ANN401 - of any type
    return field.with_type(field.type.value_type)


def _is_read_as_dictionary(field: Any) -> bool:  # noqa: ANN401 - of any type
    return field.name in DICTIONARY_COLUMNS and pa.types.is_dictionary(field.type)
