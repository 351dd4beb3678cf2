"""What engines show of a table besides its rows, by the suffixes of the names of their views."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

from hudi_bridge.inspection import file_groups, log_files, overview, services, statistics
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike


class MetadataView(NamedTuple):
    """The columns of a view, and the function that makes its rows as of an instant.

    Attributes:
        schema: the columns.
        rows: the rows of a table as of an instant, as for ``HudiTable.snapshot``.
        is_usual: whether engines make the view without being asked for it.
        has_instants: whether the rows differ from instant to instant.
    """

    schema: pa.Schema
    rows: Callable[[HudiTable, InstantLike | None], pa.Table]
    is_usual: bool = False
    has_instants: bool = True


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
    "_partitions": MetadataView(statistics.PARTITIONS_SCHEMA, statistics.inspect_partitions),
    "_log_blocks": MetadataView(
        log_files.LOG_BLOCKS_SCHEMA, lambda table, as_of: log_files.inspect_log_blocks(table, as_of=as_of)
    ),
    "_services": MetadataView(
        services.SERVICES_SCHEMA, lambda table, _: services.inspect_services(table), has_instants=False
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
