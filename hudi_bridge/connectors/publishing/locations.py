"""URIs for engines, which may reach the same file by another URI."""

from dataclasses import dataclass
from typing import Self

from hudi_bridge.errors import QueryError
from hudi_bridge.masking import masked, without_secrets
from hudi_bridge.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """Rules that replace a prefix of our path or URI with that of the engine, longest first.

    Without a matching rule, a local path becomes a file URI, and a URI is not changed.
    """

    rules: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, texts: tuple[str, ...]) -> Self:
        """Parses rules such as ``/data=local:///`` and ``/data=file:/data``.

        Raises:
            QueryError: a text is not a rule.
        """
        rules = []
        for text in texts:
            ours, sign, theirs = text.partition("=")
            if not (ours and sign and ("://" in theirs or theirs.startswith("file:/"))):
                raise QueryError("--locate", repr(masked(text)), "OURS=THEIRS, such as /data=local:///")
            rules.append((without_secrets(ours.rstrip("/")), theirs))
        return cls(rules=tuple(sorted(rules, key=lambda rule: -len(rule[0]))))

    def uri(self, storage: Storage, path: str = "") -> str:
        """The engine's URI of a file or folder; ``path`` is relative to the storage."""
        whole = storage.location(path)
        whole = whole.removeprefix("file://") if storage.is_local else whole
        for ours, theirs in self.rules:
            if whole == ours or whole.startswith(f"{ours}/"):
                inside = whole[len(ours) :].lstrip("/")
                return f"{theirs.rstrip('/')}/{inside}" if not theirs.endswith("///") else f"{theirs}{inside}"
        return whole if "://" in whole else f"file://{whole}"
