"""What a user asks of all reads of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from hudi_bridge.config import FULL_SCAN_FALLBACK_KEY, HOLLOW_COMMITS_KEY, READ_AS_RELEASE_KEY
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.timeline.instant_range import HollowCommitPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """``payloads`` are a user's own, by the Java class that a table names; ``log_memory_bytes`` is as in a split.

    ``full_scan_fallback`` says whether an incremental query of which files are gone reads the whole table instead; None
    leaves that to the table's version. ``hollow_commits`` is what becomes of a range with a write still running in it.
    ``tells_release`` is whether the user has said which release's rules hold.
    """

    payloads: Mapping[str, RecordPayload] = field(default_factory=dict)
    log_memory_bytes: int | None = None
    full_scan_fallback: bool | None = None
    hollow_commits: HollowCommitPolicy = HollowCommitPolicy.FAIL
    tells_release: bool = False

    @classmethod
    def of(
        cls,
        options: Mapping[str, str],
        payloads: Mapping[str, RecordPayload] | None = None,
        log_memory_bytes: int | None = None,
    ) -> Self:
        """The options of which some have Hudi's names.

        Raises:
            QueryError: a value is none of Hudi's.
        """
        fallback = options.get(FULL_SCAN_FALLBACK_KEY)
        if fallback is not None and fallback.lower() not in ("true", "false"):
            raise QueryError(f"options: {FULL_SCAN_FALLBACK_KEY}", repr(fallback), "true or false")
        policy = options.get(HOLLOW_COMMITS_KEY, HollowCommitPolicy.FAIL).upper()
        if policy not in set(HollowCommitPolicy):
            raise QueryError(f"options: {HOLLOW_COMMITS_KEY}", repr(policy), " or ".join(HollowCommitPolicy))
        return cls(
            payloads=dict(payloads or {}),
            log_memory_bytes=log_memory_bytes,
            full_scan_fallback=None if fallback is None else fallback.lower() == "true",
            hollow_commits=HollowCommitPolicy(policy),
            tells_release=READ_AS_RELEASE_KEY in options,
        )
