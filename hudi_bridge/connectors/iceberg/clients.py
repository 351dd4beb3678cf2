"""Which clients misread a published table, as far as that is known, for a note to whoever publishes it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import pyarrow as pa

from hudi_bridge.connectors.iceberg.columns import Columns
from hudi_bridge.connectors.iceberg.compatibility import has_lists_of_two_levels
from hudi_bridge.connectors.iceberg.presto import misread_types, types_for_presto, why_presto_misreads
from hudi_bridge.connectors.iceberg.rewriting import IcebergClient, Rewriting
from hudi_bridge.engines import StoredBaseFile


class Misreader(StrEnum):
    """Clients that misread some base files, as a note names them."""

    OF_LISTS = "DuckDB 1.5 and Spark"
    PRESTO = "Presto 0.287"


_REMEDIES = {Misreader.OF_LISTS: "--rewrite-lists", Misreader.PRESTO: "--for presto"}

Misread = Mapping[str, str]
"""The clients that misread a base file, with the reasons."""


def misread_by(base: StoredBaseFile, columns: Columns) -> Misread:
    """Which clients misread a base file that others read as Hudi does; its footer is read already."""
    found: dict[str, str] = {}
    if has_lists_of_two_levels(base.footer):
        found[Misreader.OF_LISTS] = "lists of two levels"
    if (reason := why_presto_misreads(base, columns)) is not None:
        found[Misreader.PRESTO] = reason
    return found


def notes_on(schema: pa.Schema, files: Iterable[Misread], rewriting: Rewriting) -> tuple[str, ...]:
    """What to say about a snapshot with this schema of Hudi, whose slices have these misread base files."""
    if rewriting.client is IcebergClient.PRESTO:
        return tuple(types_for_presto(schema, cut_times=rewriting.cut_times))
    return tuple(_warnings(schema, files))


def _warnings(schema: pa.Schema, files: Iterable[Misread]) -> Iterator[str]:
    by_client: dict[str, list[str]] = defaultdict(list)
    for misread in files:
        for client, reason in misread.items():
            by_client[client].append(reason)
    for client, remedy in _REMEDIES.items():
        told = list(misread_types(schema)) if client is Misreader.PRESTO else []
        if reasons := by_client[client]:
            plural = "s" if len(reasons) > 1 else ""
            told.append(f"{len(reasons):,} base file{plural} read wrong ({min(reasons)})")
        if told:
            yield f"{client}: {'; '.join(told)}; {remedy} mends this"
