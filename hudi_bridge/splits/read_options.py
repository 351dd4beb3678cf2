"""What a user asks of all reads of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_bridge.merge.custom_payload import RecordPayload


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """``payloads`` are a user's own, by the Java class that a table names; ``log_memory_bytes`` is as in a split."""

    payloads: Mapping[str, RecordPayload] = field(default_factory=dict)
    log_memory_bytes: int | None = None
