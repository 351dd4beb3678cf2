"""A user's own payload: how versions of a record become one, in Python.

A table names its payload by a Java class. ``HudiTable.open(payloads={"com.acme.CounterPayload": CounterPayload()})``
says what stands for it. Rows are handed over as dictionaries from column name to Python value, with the meta columns,
and returned likewise; columns that are left out of a returned row become null. Only keys that have several versions are
handed over: a log record that meets nothing, and a base row that no log record meets, pass as they are.

A payload travels inside splits, so it has to be picklable: an instance of a class in a module that workers can import.

Source: ``HoodieRecordPayload`` of Hudi.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from hudi_bridge.errors import HudiReadError, MergeError

Row = Mapping[str, Any]


class RecordPayload:
    """What a payload class of a table does; each method may be replaced."""

    def pre_combine(self, older: Row, newer: Row) -> Row:
        """What two log versions of a record become; here the newer one."""
        del older
        return newer

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        """What the base row and the log version of a record become, None to delete it; here the log version."""
        del current
        return incoming

    def get_insert_value(self, incoming: Row) -> Row | None:
        """What a log version without a base row becomes, None for no row; here itself."""
        return incoming

    @property
    def changes_inserts(self) -> bool:
        """Whether ``get_insert_value`` has been replaced, so that it has to be asked."""
        return type(self).get_insert_value is not RecordPayload.get_insert_value


def ask_payload(payload: RecordPayload, method: str, record_key: str, *rows: Row) -> Row | None:
    """What a method of the payload answers.

    Raises:
        MergeError: the payload failed, or answered something that is no row.
    """
    name = type(payload).__name__
    try:
        answer = getattr(payload, method)(*rows)
    except HudiReadError:
        raise
    except Exception as error:
        raise MergeError(name, record_key, f"{method} raised {type(error).__name__}: {error}") from error
    if answer is not None and not isinstance(answer, Mapping):
        raise MergeError(name, record_key, f"{method} returned {type(answer).__name__}, expected a mapping or None")
    return answer


def rows_of_payload(payload: RecordPayload, rows: Iterable[Row | None], schema: pa.Schema) -> pa.RecordBatch:
    """The rows that a payload answered, without those that are None.

    Raises:
        MergeError: a row does not fit the schema.
    """
    kept = [dict(row) for row in rows if row is not None]
    try:
        return pa.RecordBatch.from_pylist(kept, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise MergeError(type(payload).__name__, "of a batch", f"a returned row does not fit: {error}") from error
