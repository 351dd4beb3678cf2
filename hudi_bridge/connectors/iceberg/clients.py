"""Which clients misread a published table, as far as that is known, for a note to whoever publishes it."""

from collections.abc import Sequence
from enum import StrEnum

import pyarrow as pa

from hudi_bridge.connectors.iceberg.columns import Columns
from hudi_bridge.connectors.iceberg.compatibility import reason_nested_misread
from hudi_bridge.connectors.iceberg.presto import misread_types, types_for_presto, why_presto_misreads
from hudi_bridge.connectors.iceberg.rewriting import IcebergClient, Rewriting
from hudi_bridge.connectors.iceberg.slice_files import Misread, SliceFiles
from hudi_bridge.engines import StoredBaseFile


class Misreader(StrEnum):
    """Clients that misread some base files, as a note names them."""

    OF_LISTS = "DuckDB 1.5 or Spark"
    PRESTO = "Presto 0.287"


_REMEDIES = {Misreader.OF_LISTS: "leaving out --lists-as-stored", Misreader.PRESTO: "--for presto"}


def misread_by(base: StoredBaseFile, columns: Columns) -> Misread:
    """Which clients misread a base file that others read as Hudi does; its footer is read already."""
    found: dict[str, str] = {}
    if (lists := reason_nested_misread(base)) is not None:
        found[Misreader.OF_LISTS] = lists
    if (reason := why_presto_misreads(base, columns)) is not None:
        found[Misreader.PRESTO] = reason
    return found


def notes_on(
    schema: pa.Schema, slices: Sequence[SliceFiles], partition_columns: Sequence[str], rewriting: Rewriting
) -> tuple[str, ...]:
    """What to say about a snapshot with this schema of Hudi, these files and these columns of partitions."""
    copied = notes_on_copies(slices, rewriting)
    if rewriting.client is IcebergClient.PRESTO:
        return (*copied, *types_for_presto(schema, cut_times=rewriting.cut_times))
    told: dict[Misreader, list[str]] = {client: [] for client in Misreader}
    told[Misreader.PRESTO] += misread_types(schema)
    outside = sum(file.partition is None for one in slices for file in one.data)
    if partition_columns and outside:
        told[Misreader.PRESTO].append(f"reads {', '.join(partition_columns)} as null in {_files(outside, 'data file')}")
    for client in Misreader:
        if reasons := [one.misread[client] for one in slices if client in one.misread]:
            told[client].append(f"misreads {_files(len(reasons), 'base file')} ({min(reasons)})")
    misread = (f"{client}: {'; '.join(what)}; {_REMEDIES[client]} mends this" for client, what in told.items() if what)
    return (*copied, *misread)


def notes_on_copies(slices: Sequence[SliceFiles], rewriting: Rewriting) -> tuple[str, ...]:
    """What to say of base files that were written anew because of their lists or maps, if there are any."""
    copies = sum(one.base_copy is not None for one in slices)
    if not copies or rewriting.lists_as_stored:
        return ()
    reason = f"{_files(copies, 'base file')} written anew, as {Misreader.OF_LISTS} would misread lists or maps"
    return (f"{reason}; --lists-as-stored leaves those that Trino and PyIceberg read",)


def _files(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
