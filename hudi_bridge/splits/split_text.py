"""A split as a JSON text, and back: what the texts of all kinds of splits have in common."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from hudi_bridge.errors import QueryError

_FORMAT = 1


def split_text(kind: str, split: Mapping[str, Any]) -> str:
    """The JSON text of a split, whose values are those that JSON has."""
    return json.dumps({"format": _FORMAT, kind: split})


@contextmanager
def split_of_text(text: str, kind: str, class_name: str) -> Iterator[dict[str, Any]]:
    """What ``split_text`` was given, to make a split of.

    Raises:
        QueryError: the text is not such a split; also for what goes wrong while one is made of it.
    """
    try:
        document = json.loads(text)
        if document["format"] != _FORMAT:
            raise QueryError("split", f"format {document['format']}", f"format {_FORMAT}")
        yield document[kind]
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        EOFError,
        OSError,
        RecursionError,
        pa.ArrowException,
    ) as error:
        if isinstance(error, QueryError):
            raise
        raise QueryError("split", f"text that is no split ({error})", f"the JSON of a {class_name}") from error
