"""Runs a function that reads tables, in a process of its own: requests come as lines of JSON, replies go as such.

    python -m tests.golden.conformance.worker MODULE:FUNCTION

``tests.golden.conformance.processes`` starts it, with the Python that has the reader: besides this it needs PyArrow.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa


def main() -> int:
    """Says that the function is there, then answers one request after the other until there is none."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    # What the reader prints is no reply.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def reply(**fields: str) -> None:
        print(json.dumps(fields), file=replies, flush=True)

    module_name, _, name = sys.argv[1].partition(":")
    try:
        module = importlib.import_module(module_name)
        function = getattr(module, name)
    except Exception as error:  # noqa: BLE001 - whatever a module raises
        reply(failed=described(error))
        return 1
    reply(name=getattr(module, "READER", sys.argv[1]))
    for line in sys.stdin:
        reply(**answer(function, json.loads(line)))
    return 0


def answer(function: Callable[..., Any], request: Mapping[str, Any]) -> dict[str, str]:
    """Writes the rows to the file that the request names; returns the verdict if there are none, and why."""
    try:
        rows = pa.table(function(request["table"], request["kind"], request["options"]))
        with pa.ipc.new_stream(request["answer"], rows.schema) as stream:
            stream.write_table(rows)
    except MemoryError as error:
        return {"verdict": "crashed", "detail": described(error)}
    except NotImplementedError as error:
        return {"verdict": "not offered", "detail": described(error)}
    except Exception as error:  # noqa: BLE001 - whatever the reader raises
        return {"verdict": "refused", "detail": described(error)}
    # The panic of a reader in Rust derives from BaseException.
    except BaseException as error:  # noqa: BLE001
        return {"verdict": "crashed", "detail": described(error)}
    return {}


def described(error: BaseException) -> str:
    """The type of an error and its first line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
