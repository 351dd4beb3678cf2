"""What tells a file slice, as a query reads it, from all others: the identity of what an engine keeps of it.

An identity is a hash of every field of the split and of its context, and of the code of a user's payload. Fields that
do not matter are named here, so that a new one counts unless somebody says otherwise. Which log blocks count is no part
of it: the log files alone tell whose blocks they hold. It is kept beside what was made of the slice, as
``SliceDelta.counted_instants``, so that what is kept outlives commits that do not touch the slice.
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

from hudi_bridge.masking import without_secrets
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit

_VERSION = 1
"""To be raised when slices of the same facts are read otherwise than before."""

NOT_IDENTIFYING: Final = frozenset(
    (
        # These decide which log blocks count, and nothing else.
        "latest_instant",
        "committed_instants",
        "pending_instants",
        "timeline_start",
        # How rows are merged, not which.
        "log_memory_bytes",
    )
)
"""The fields of a context that do not change what is made of a slice."""

_PLAIN = (bool, int, str, type(None))


def context_identity(context: ReadContext, *settings: object) -> str:
    """A hash of what all slices of a plan have in common, and of an engine's own settings, its format among them."""
    facts = _fields_of(context, leave_out=NOT_IDENTIFYING)
    # A token in a URI is given anew from time to time.
    facts["table_path"] = without_secrets(context.table_path)
    return identity(_VERSION, facts, *settings)


def slice_identity(split: RealtimeFileSplit, of_context: str) -> str:
    """A hash of a file slice, given that of its context: whatever is made of its files holds as long as it is the same
    and the same log blocks count.
    """
    return identity(of_context, _fields_of(split, leave_out=frozenset(("context",))))


def identity(*facts: object) -> str:
    """A hash of values: plain ones, and mappings, sequences, sets and dataclasses of such values, field by field.

    Raises:
        TypeError: a value is of a kind that has no identity yet.
    """
    text = json.dumps([_canonical(fact) for fact in facts], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def payload_identity(payload: RecordPayload) -> str:
    """A text that changes with the payload's class, with its attributes, and with the text of its module."""
    kind = type(payload)
    module = inspect.getmodule(kind)
    try:
        text = inspect.getsource(kind if module is None else module)
    except (OSError, TypeError):
        # A class that was typed at a prompt has no text.
        text = ""
    content = hashlib.sha256(text.encode("utf-8", "surrogatepass") + pickle.dumps(payload))
    return f"{kind.__module__}.{kind.__qualname__} {content.hexdigest()}"


def _canonical(value: object) -> Any:  # noqa: ANN401 - what JSON has
    """A value as JSON has it, so that different values are different texts."""
    if isinstance(value, _PLAIN) and not isinstance(value, Enum):
        return value
    for kind, canonical in _CANONICAL:
        if isinstance(value, kind):
            return canonical(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"fields": _fields_of(value)}
    raise TypeError(f"{type(value).__name__} has no identity")


def _text(value: object) -> Any:  # noqa: ANN401
    return {type(value).__name__: str(value)}


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
    (pa.Scalar, lambda value: {"type": str(value.type), "value": _canonical(value.as_py())}),
    (Mapping, lambda value: {"mapping": _sorted([_canonical(key), _canonical(one)] for key, one in value.items())}),
    (AbstractSet, lambda value: {"set": _sorted(map(_canonical, value))}),
    ((tuple, list), lambda value: list(map(_canonical, value))),
)
