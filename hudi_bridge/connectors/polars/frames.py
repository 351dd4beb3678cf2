"""Lazy frames over the rows of a table, read as Polars asks for them."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from hudi_bridge.connectors.polars.conditions import columns_of, condition_of, frame_of
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.schema.meta_columns import own_columns
from hudi_bridge.storage.storage import PathLike, StorageOptions
from hudi_bridge.table import HudiTable, OpenArguments, RowsArguments, opened, rows_of
from hudi_bridge.timeline.instant import InstantLike


def scan(
    path_or_table: PathLike | HudiTable,
    *,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    options: Mapping[str, str] | None = None,
    payloads: Mapping[str, RecordPayload] | None = None,
    log_memory_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    as_of: InstantLike | None = None,
    read_optimized: bool = False,
    after: InstantLike | None = None,
    up_to: InstantLike | None = None,
    meta_columns: bool = True,
) -> pl.LazyFrame:
    """The rows of a table as a lazy frame: its snapshot or, if asked, the base files alone or a range of commits.

    ``path_or_table`` is a path or URI as for ``HudiTable.open``, or an open table. ``filesystem``, ``options``,
    ``payloads``, ``log_memory_bytes`` and ``storage_options`` are those of ``HudiTable.open``, and ``as_of`` is that of
    ``HudiTable.snapshot``.
    ``read_optimized`` leaves out the changes in log files. ``after``, and optionally ``up_to``, ask for the rows that
    commits in that range have written, as ``HudiTable.incremental`` does. Without ``meta_columns``, the frame lacks
    Hudi's own columns.

    The frame stays at the instant that was newest at the time of this call, or at ``as_of``. No rows are read before
    Polars collects the frame, and each collection reads them anew. Errors of reading are raised by Polars as they are.

    Raises:
        QueryError: the arguments exclude one another, or an option is unknown or refused.
        InstantNotReadableError: files of the instant or of the range have been removed, or are incomplete.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly, or has a column whose type Polars
            lacks.
    """
    table = opened(
        path_or_table,
        OpenArguments(
            filesystem=filesystem,
            options=options,
            payloads=payloads,
            log_memory_bytes=log_memory_bytes,
            storage_options=storage_options,
        ),
    )
    rows = rows_of(table, RowsArguments(as_of=as_of, read_optimized=read_optimized, after=after, up_to=up_to))
    return _lazy(rows, rows.schema.names if meta_columns else own_columns(rows.schema.names))


def scan_dataset(dataset: HudiDataset) -> pl.LazyFrame:
    """The rows of a dataset of ``HudiTable``, such as ``HudiTable.changes``, as a lazy frame.

    Raises:
        UnsupportedTableError: Polars lacks the type of a column.
    """
    return _lazy(dataset, dataset.schema.names)


def _lazy(dataset: HudiDataset, names: list[str]) -> pl.LazyFrame:
    schema = pa.schema([dataset.schema.field(name) for name in names])
    # A dataset is planned once, so a plan that has it twice may read it once.
    return register_io_source(partial(_frames, dataset, names=names), schema=columns_of(schema), is_pure=True)


def _frames(
    dataset: HudiDataset,
    with_columns: list[str] | None,
    predicate: pl.Expr | None,
    n_rows: int | None,
    batch_size: int | None,
    names: list[str] | None = None,
) -> Iterator[pl.DataFrame]:
    """The frames of one collection, as ``register_io_source`` asks for them; ``names`` are all columns of the frame."""
    names = (names or dataset.schema.names) if with_columns is None else with_columns
    used = () if predicate is None else predicate.meta.root_names()
    needed = list(dict.fromkeys((*names, *used)))
    # Polars asks for the first rows, and keeps the rows among them that pass.
    condition = None if predicate is None or n_rows is not None else condition_of(predicate, dataset.schema)
    missing = n_rows
    if missing == 0:
        return
    # Closed by the end of this generator, which ends the threads that read ahead.
    with dataset.scanner(needed, condition).to_reader() as batches:
        for batch in batches:
            first = batch.slice(0, missing)
            frame = frame_of(first)
            # The condition may let more rows pass.
            passed = frame if predicate is None else frame.filter(predicate)
            if names:
                yield from passed.select(names).iter_slices(batch_size or max(1, passed.height))
            else:
                yield pl.DataFrame(height=passed.height)
            if missing is not None:
                missing -= first.num_rows
            if missing == 0:
                return
