"""Cache keys for results that an engine stores for a file slice.

The keys do not cover which log blocks count, because only the log files show that. Engines store
``SliceDelta.counted_instants`` with each entry and compare it.
"""

import hashlib
import inspect
import json
import pickle
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.masking import without_secrets

_VERSION = 1
"""Raise it when slices with the same field values are read differently than before."""

NOT_IDENTIFYING: Final = frozenset(
    (
        # These decide which log blocks count, and nothing else.
        "latest_instant",
        "committed_instants",
        "pending_instants",
        "timeline_start",
        # This decides how rows are merged, but not the result.
        "log_memory_bytes",
        # These decide how the files are reached.
        "storage_options",
        "needs_keys",
        "needs_filesystem",
        # These decide which slices are read.
        "fields_spell_keys",
        "skips_slices",
        "bucket_count",
        "bucket_fields",
    )
)
"""The fields of a context that do not change the merged rows of a slice, apart from the log blocks that count."""

_JSON_SCALARS = (bool, int, str, type(None))


def context_identity(context: ReadContext, *settings: object) -> str:
    """A hash of the context that all slices of a plan share, and of the engine's own settings, such as its format."""
    context_fields = _fields_of(context, leave_out=NOT_IDENTIFYING)
    # Tokens in URIs are renewed from time to time, so they must not change the identity.
    context_fields["table_path"] = without_secrets(context.table_path)
    return identity(_VERSION, context_fields, *settings)


def slice_identity(split: RealtimeFileSplit, context_hash: str) -> str:
    """A hash of a file slice and its ``context_identity``.

    A result of the slice is valid as long as the hash is the same and the same log blocks count.
    """
    return identity(context_hash, _fields_of(split, leave_out=frozenset(("context",))))


def identity(*values: object) -> str:
    """A hash of values: scalars, and mappings, sequences, sets and dataclasses of them.

    Raises:
        TypeError: the type of a value is not supported.
    """
    text = json.dumps([_canonical(value) for value in values], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def payload_identity(payload: RecordPayload) -> str:
    """A text that changes with the payload's class, its attributes and the source of its module."""
    kind = type(payload)
    module = inspect.getmodule(kind)
    try:
        text = inspect.getsource(kind if module is None else module)
    except (OSError, TypeError):
        # A class that was defined at a prompt has no source.
        text = ""
    content = hashlib.sha256(text.encode("utf-8", "surrogatepass") + pickle.dumps(payload))
    return f"{kind.__module__}.{kind.__qualname__} {content.hexdigest()}"


def _canonical(value: object) -> Any:  # noqa: ANN401 - JSON
    """A JSON value that differs for different values."""
    if isinstance(value, _JSON_SCALARS) and not isinstance(value, Enum):
        return value
    for kind, canonical in _CANONICAL:
        if isinstance(value, kind):
            return canonical(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"fields": _fields_of(value)}
    raise TypeError(f"{type(value).__name__} has no identity")


def _text(value: object) -> Any:  # noqa: ANN401
    return {type(value).__name__: str(value)}


def _native(value: Any) -> Any:  # noqa: ANN401 - a scalar of any type
    try:
        return value.as_py()
    except OverflowError:
        # Python has no dates before the year 1 or after 9999.
        return value.value


def _fields_of(value: Any, leave_out: frozenset[str] = frozenset()) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    return {
        field.name: _canonical(getattr(value, field.name)) for field in fields(value) if field.name not in leave_out
    }


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda value: json.dumps(value, sort_keys=True))


_CANONICAL: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (Enum, lambda value: _canonical(value.value)),
    (RecordPayload, lambda value: {"payload": payload_identity(value)}),
    ((float, Decimal, date, time, timedelta, pa.DataType), _text),
    (bytes, lambda value: {"bytes": value.hex()}),
    (pa.Schema, lambda value: {"schema": value.serialize().to_pybytes().hex()}),
    (pa.Scalar, lambda value: {"type": str(value.type), "value": _canonical(_native(value))}),
    (Mapping, lambda value: {"mapping": _sorted([_canonical(key), _canonical(item)] for key, item in value.items())}),
    (AbstractSet, lambda value: {"set": _sorted(map(_canonical, value))}),
    ((tuple, list), lambda value: list(map(_canonical, value))),
)
