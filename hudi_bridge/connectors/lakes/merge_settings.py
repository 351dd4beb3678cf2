"""Read options and payloads for the tables of a service."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from hudi_bridge.engines import RecordPayload
from hudi_bridge.errors import QueryError
from hudi_bridge.option_table import require_read_options
from hudi_bridge.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """The ``options``, ``payloads`` and ``log_memory_bytes`` of one table, as for ``HudiTable.open``."""

    options: Mapping[str, str] = field(default_factory=dict)
    payloads: Mapping[str, RecordPayload] = field(default_factory=dict)
    log_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergingByTable:
    """The merge settings of many tables. ``options_by_path`` holds further options by table path."""

    options: Mapping[str, str] = field(default_factory=dict)
    options_by_path: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    payloads: Mapping[str, RecordPayload] = field(default_factory=dict)
    log_memory_bytes: int | None = None

    @classmethod
    def parse(
        cls, texts: Iterable[str], payloads: Mapping[str, RecordPayload], find: Callable[[str], Storage | None]
    ) -> Self:
        """Parses ``NAME=VALUE``, for all tables, and ``sales.orders:NAME=VALUE``, for one of them.

        ``find`` returns the table with a name, or None.

        Raises:
            QueryError: a text is of neither form, or its option or table does not exist.
        """
        of_all: dict[str, str] = {}
        by_path: dict[str, dict[str, str]] = defaultdict(dict)
        for text in texts:
            name, sign, value = text.partition("=")
            table_name, colon, option = name.rpartition(":")
            if not (sign and option and bool(table_name) == bool(colon)):
                raise QueryError("--option", repr(text), "NAME=VALUE or NAMESPACE.TABLE:NAME=VALUE")
            require_read_options({option: value})
            if not table_name:
                of_all[option] = value
                continue
            table = find(table_name)
            if table is None:
                raise QueryError("--option", repr(text), f"a table that there is, not {table_name}")
            by_path[table.table_path][option] = value
        return cls(options=of_all, options_by_path=by_path, payloads=payloads)

    def of(self, table: Storage) -> MergeSettings:
        """The settings of one table."""
        own = self.options_by_path.get(table.table_path, {})
        options = {**self.options, **own}
        return MergeSettings(options=options, payloads=self.payloads, log_memory_bytes=self.log_memory_bytes)
