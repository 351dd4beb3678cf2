"""The rows of a query, as DuckDB plans them: its own scan of base files, and what hudi-bridge gives for it."""

import duckdb

from hudi_bridge.connectors.duckdb.merged_rows import FILE_NUMBER, POSITION, MergedRows
from hudi_bridge.connectors.duckdb.native_scan import FILE, ROW, NativeScan
from hudi_bridge.connectors.duckdb.sources import Errors, Source
from hudi_bridge.connectors.duckdb.sql_text import quote_identifier
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines import MergedSlices, MergeStore, most_at_once
from hudi_bridge.storage import Storage


def native_view(
    connection: duckdb.DuckDBPyConnection,
    storage: Storage,
    dataset: HudiDataset,
    scan: NativeScan,
    store: MergeStore,
    errors: Errors,
) -> duckdb.DuckDBPyRelation:
    """The rows of a snapshot or read-optimized query; merges of slices are taken from and put into the store."""
    # Rows and positions are asked for at the same time, each of several slices.
    slices = sum(bool(split.log_paths) for split in scan.splits)
    at_once = 1 if slices == 1 else 2 * most_at_once(slices)
    merges = MergedSlices(storage=storage, context=dataset.context, store=store, at_once=at_once)
    merged = MergedRows(storage, dataset, scan, merges)
    rows = connection.from_arrow(Source(dataset.schema, merged.rows, errors, merged.announce))
    if scan.sql is None:
        return rows
    names = ", ".join(f"base.{quote_identifier(name)}" for name in dataset.schema.names)
    base = connection.sql(scan.sql).set_alias("base")
    if merged.has_positions:
        gone = connection.from_arrow(Source(merged.positions_schema, merged.positions, errors)).set_alias("gone")
        # DuckDB turns this into an anti-join. Unlike one, it passes conditions on the columns on to the positions.
        base = base.join(gone, _is_gone(merged), how="left").filter(f"{POSITION} IS NULL")
    base = base.project(names)
    # In this order, DuckDB mostly starts to read the rows before the positions: see ``MergedRows``.
    return rows.union(base) if merged.has_rows else base


def _is_gone(merged: MergedRows) -> str:
    pairs = [(FILE, FILE_NUMBER), (ROW, POSITION), *((name, name) for name in merged.path_columns)]
    return " AND ".join(f"base.{quote_identifier(one)} = gone.{quote_identifier(other)}" for one, other in pairs)
