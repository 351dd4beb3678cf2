"""What engines show of a table besides its rows, by the suffixes of the names of their views."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import QueryError
from hudi_bridge.inspection import file_groups, log_files, overview, services, statistics
from hudi_bridge.readers.filters import allowed_values
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike


class MetadataView(NamedTuple):
    """The columns of a view, and the function that makes its rows as of an instant.

    Attributes:
        schema: the columns; None if they are the table's, as ``schema_of`` tells.
        rows: the rows of a table as of an instant, as for ``HudiTable.snapshot``.
        is_usual: whether engines make the view without being asked for it.
        has_instants: whether the rows differ from instant to instant.
        rows_of_group: the rows with one ``file_id``, for which less is read; raises QueryError if there are none.
    """

    schema: pa.Schema | None
    rows: Callable[[HudiTable, InstantLike | None], pa.Table]
    is_usual: bool = False
    has_instants: bool = True
    rows_of_group: Callable[[HudiTable, InstantLike | None, str], pa.Table] | None = None

    def schema_of(self, table: HudiTable, as_of: InstantLike | None = None) -> pa.Schema:
        """The columns of the view of a table."""
        if self.schema is not None:
            return self.schema
        return log_files.inspect_log_records(table, as_of=as_of).schema

    def passing(self, table: HudiTable, as_of: InstantLike | None, row_filter: pc.Expression | None) -> pa.Table:
        """Rows among which are all that pass a filter; those of some file groups if the filter names these alone."""
        groups = None if row_filter is None or self.rows_of_group is None else allowed_values(row_filter, "file_id")
        if groups is None or self.rows_of_group is None:
            return self.rows(table, as_of)
        parts = []
        for file_id in groups.to_pylist():
            with suppress(QueryError):
                parts.append(self.rows_of_group(table, as_of, str(file_id)))
        return pa.concat_tables(parts) if parts else self.schema_of(table, as_of).empty_table()


VIEWS: Mapping[str, MetadataView] = {
    "_timeline": MetadataView(
        overview.TIMELINE_SCHEMA, lambda table, _: overview.inspect_timeline(table), is_usual=True, has_instants=False
    ),
    "_commits": MetadataView(
        overview.COMMITS_SCHEMA, lambda table, _: overview.inspect_commits(table), is_usual=True, has_instants=False
    ),
    "_file_slices": MetadataView(overview.FILE_SLICES_SCHEMA, overview.inspect_file_slices, is_usual=True),
    "_files": MetadataView(overview.FILES_SCHEMA, overview.inspect_files, is_usual=True),
    "_all_slices": MetadataView(file_groups.ALL_SLICES_SCHEMA, file_groups.inspect_all_slices),
    "_all_files": MetadataView(
        file_groups.FILE_GROUP_SCHEMA,
        lambda table, as_of: file_groups.inspect_file_group(table, as_of=as_of),
    ),
    "_partitions": MetadataView(statistics.PARTITIONS_SCHEMA, statistics.inspect_partitions),
    "_log_blocks": MetadataView(
        log_files.LOG_BLOCKS_SCHEMA,
        lambda table, as_of: log_files.inspect_log_blocks(table, as_of=as_of),
        rows_of_group=lambda table, as_of, file_id: log_files.inspect_log_blocks(table, file_id=file_id, as_of=as_of),
    ),
    "_log_records": MetadataView(
        None,
        lambda table, as_of: log_files.inspect_log_records(table, as_of=as_of).read_all(),
        rows_of_group=lambda table, as_of, file_id: log_files.inspect_log_records(
            table, file_id=file_id, as_of=as_of
        ).read_all(),
    ),
    "_commit_files": MetadataView(
        overview.COMMIT_FILES_SCHEMA,
        lambda table, _: overview.inspect_commit_files(table),
        has_instants=False,
    ),
    "_services": MetadataView(
        services.SERVICES_SCHEMA, lambda table, _: services.inspect_services(table), has_instants=False
    ),
    "_service_files": MetadataView(
        services.SERVICE_FILES_SCHEMA,
        lambda table, _: services.inspect_service_files(table),
        has_instants=False,
    ),
    "_archived_timeline": MetadataView(
        overview.TIMELINE_SCHEMA,
        lambda table, _: _of_archive(overview.inspect_timeline(table, archived=True)),
        has_instants=False,
    ),
    "_archived_commits": MetadataView(
        overview.COMMITS_SCHEMA,
        lambda table, _: _of_archive(overview.inspect_commits(table, archived=True)),
        has_instants=False,
    ),
    "_archived_services": MetadataView(
        services.SERVICES_SCHEMA,
        lambda table, _: _of_archive(services.inspect_services(table, archived=True)),
        has_instants=False,
    ),
    "_write_amplification": MetadataView(
        statistics.WRITE_AMPLIFICATION_SCHEMA,
        lambda table, _: statistics.inspect_write_amplification(table),
        has_instants=False,
    ),
    "_file_sizes": MetadataView(statistics.FILE_SIZES_SCHEMA, statistics.inspect_file_sizes),
    "_overlap": MetadataView(
        statistics.OVERLAP_SCHEMA, lambda table, as_of: statistics.inspect_overlap(table, as_of=as_of)
    ),
    "_key_filters": MetadataView(statistics.KEY_FILTERS_SCHEMA, statistics.inspect_key_filters),
    "_bootstrap": MetadataView(
        statistics.BOOTSTRAP_SCHEMA, lambda table, _: statistics.inspect_bootstrap(table), has_instants=False
    ),
    "_properties": MetadataView(
        statistics.PROPERTIES_SCHEMA, lambda table, _: statistics.inspect_properties(table), has_instants=False
    ),
}
"""The views by suffix, the usual ones first. Rows are made when a query reads the view."""


def _of_archive(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.field("archived"))
