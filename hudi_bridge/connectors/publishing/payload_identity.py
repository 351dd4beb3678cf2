"""What tells a user's payload from others, so that nothing is used again that another one has merged."""

import hashlib
import inspect
import pickle
from collections.abc import Mapping

from hudi_bridge.merge.custom_payload import RecordPayload


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


def payload_identities(payloads: Mapping[str, RecordPayload]) -> tuple[tuple[str, str], ...]:
    """The same of all payloads, by the Java class that a table names."""
    return tuple((java_class, payload_identity(payload)) for java_class, payload in sorted(payloads.items()))
