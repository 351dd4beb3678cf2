"""The plan of a random table: what was drawn, the options of its writer, and its steps."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.golden.generate.options import PAYLOADS
from tests.golden.generate.releases import number

MERGE_ON_READ = "MERGE_ON_READ"
COPY_ON_WRITE = "COPY_ON_WRITE"
NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"
OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"

DEFAULT_PAYLOAD = "DefaultHoodieRecordPayload"
DMS = "AWSDmsAvroPayload"
MYSQL = "debezium.MySqlDebeziumAvroPayload"
POSTGRES = "debezium.PostgresDebeziumAvroPayload"
FILLS_UNSET = ("PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload")
"""Payloads under which nulls matter, which are drawn more often then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operation on the table, by the name of a function of ``row_steps`` or ``table_steps``.

    Its values depend on the seed of the table and on ``number`` alone, so that steps can be left out. ``release`` is
    the Hudi that runs it; ``rows`` is the number of new rows, None for one that is drawn.
    """

    number: int
    name: str
    release: str
    rows: int | None = None


@dataclass(slots=True, kw_only=True)
class Draw:
    """A table that is to be written. Functions of ``drawing`` and of ``drawn_services`` fill it in.

    ``begins_in`` is the release that runs the first steps, if that is another than ``release``. ``columns`` are names
    and types as Spark spells them.
    """

    release: str
    seed: int
    begins_in: str | None = None
    table_version: int = 0
    table_type: str = MERGE_ON_READ
    merging: str = "default"
    payload: str | None = None
    merge_mode: str | None = None
    ordering: list[tuple[str, str]] = field(default_factory=list)
    has_null_ordering: bool = False
    has_meta_fields: bool = True
    has_deletes: bool = False
    has_marker: bool = False
    key: str = "simple"
    key_fields: list[str] = field(default_factory=list)
    partition: str = "none"
    partition_fields: list[str] = field(default_factory=list)
    drops_partition_columns: bool = False
    columns: list[tuple[str, str]] = field(default_factory=list)
    index: str = "SIMPLE"
    has_metadata: bool = False
    metadata_indexes: list[str] = field(default_factory=list)
    log_format: str = "default"
    cdc: str | None = None
    services: list[str] = field(default_factory=list)
    cleaning: str = "off"
    concurrency: str | None = None
    has_column_ids: bool = False
    options: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the table and of its folder."""
        return f"r_{self.release.replace('.', '')}_{self.seed}"

    @property
    def first_release(self) -> str:
        """The release that creates the table."""
        return self.begins_in or self.release

    @property
    def writer(self) -> tuple[int, ...]:
        """The release that creates the table, for comparison: what it cannot write is not drawn."""
        return number(self.first_release)

    @property
    def is_merge_on_read(self) -> bool:
        """Whether the table may have log files."""
        return self.table_type == MERGE_ON_READ

    @property
    def moves_records(self) -> bool:
        """Whether the index finds a record in another partition, too."""
        return self.index.startswith("GLOBAL") or self.index == "RECORD_INDEX"

    @property
    def payload_class(self) -> str | None:
        """The full name of the payload class."""
        return None if self.payload is None else PAYLOADS + self.payload

    @property
    def reader_options(self) -> dict[str, str]:
        """Options that a reader needs, as the table does not say so."""
        names = (
            "hoodie.payload.delete.field",
            "hoodie.payload.delete.marker",
            "hoodie.datasource.write.record.merger.impls",
            "hoodie.schema.on.read.enable",
        )
        return {name: self.options[name] for name in names if name in self.options}

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Adds options of the writer; those of None are left out."""
        self.options |= {name: option_text(value) for name, value in options.items() if value is not None}

    def with_steps(self, numbers: Sequence[int]) -> "Draw":
        """The same table with some of its steps."""
        return dataclasses.replace(self, steps=[step for step in self.steps if step.number in numbers])

    def features(self) -> list[str]:
        """What the table has, for counts."""
        facts = [f"{self.release}{f' from {self.begins_in}' if self.begins_in else ''}, version {self.table_version}"]
        facts += [f"type {self.table_type}", f"merging {self.payload or self.merge_mode or self.merging}"]
        facts += [f"key {self.key}", f"partition {self.partition}", f"index {self.index}", f"logs {self.log_format}"]
        facts += [f"ordering {kind}" for _, kind in self.ordering] or ["no ordering field"]
        facts += [f"metadata {name}" for name in self.metadata_indexes] + [f"service {name}" for name in self.services]
        facts += [f"cdc {self.cdc}"] if self.cdc else []
        facts += [f"concurrency {self.concurrency}"] if self.concurrency else []
        facts += [name for name in ("drops_partition_columns", "has_column_ids", "has_marker") if getattr(self, name)]
        return facts if self.has_meta_fields else [*facts, "no meta columns"]

    def as_json(self) -> dict[str, Any]:
        """What ``read_draw`` reads."""
        return dataclasses.asdict(self)


def read_draw(document: Mapping[str, Any]) -> Draw:
    """The plan that was written as JSON."""
    facts = dict(json.loads(json.dumps(document)))
    facts["steps"] = [Step(**step) for step in facts["steps"]]
    for name in ("ordering", "columns"):
        facts[name] = [(column, kind) for column, kind in facts[name]]
    return Draw(**facts)


def option_text(value: Any) -> str:
    """The value of an option as Hudi reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
