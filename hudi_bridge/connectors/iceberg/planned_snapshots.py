"""Scans of a Hudi table that are planned by the service: only the file slices that a scan needs are built.

A load reads no data file. Its metadata have the columns and the snapshots, whose manifest lists are never written: the
client asks for a plan instead. A plan builds its slices in steps, one for each request for scan tasks.

    data/      rows and position deletes of file slices
    slices/    the cache entry of each slice
    given/     notes of the slices that clients were given
    snapshots/ one record for each instant that was loaded
    tables/    Iceberg table metadata

Any number of services may use one folder. A plan is known to the service that made it alone.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any
from uuid import uuid4

import pyarrow.compute as pc
from pyiceberg.schema import Schema

from hudi_bridge.connectors.iceberg.garbage import Garbage
from hudi_bridge.connectors.iceberg.given_slices import GivenSlices
from hudi_bridge.connectors.iceberg.metadata import epoch_ms
from hudi_bridge.connectors.iceberg.name_mapping import Ids, names_to_ids
from hudi_bridge.connectors.iceberg.scan_filters import ScanFilter
from hudi_bridge.connectors.iceberg.scan_requests import ScanRequest
from hudi_bridge.connectors.iceberg.scan_tasks import scan_tasks
from hudi_bridge.connectors.iceberg.served_table import Published, PublishedMetadata, ServedTable
from hudi_bridge.connectors.iceberg.slice_builder import DATA, SliceBuilder
from hudi_bridge.connectors.iceberg.snapshot import IcebergSnapshot
from hudi_bridge.connectors.iceberg.snapshot_builder import snapshot_builder
from hudi_bridge.connectors.iceberg.snapshot_records import TABLES, SnapshotRecords
from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines import column_ids
from hudi_bridge.errors import DataFileGoneError, InstantNotReadableError, QueryError
from hudi_bridge.operations import operation
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike

_SLICES_AT_ONCE = 64
"""How many slices a request builds at most, so that clients get tasks before all are built."""
_MOST_PLANS = 256
_MOST_TRIES = 3
_CHECK_SECONDS = 60.0
_NO_PLAN = "there is no such plan, or no longer"
_LOG = logging.getLogger(__name__)


class NoSuchPlanError(Exception):
    """Raised for a plan or a plan task that the service does not have, or no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What a load or a plan has found of a table: the columns as clients know them, and how slices are built."""

    table: HudiTable
    dataset: HudiDataset
    record: IcebergSnapshot
    builder: SliceBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The steps of a scan: the slices of the ``first``, and those of the others by plan task."""

    id: str
    state: _State
    residual: Any
    with_statistics: frozenset[int]
    first: Sequence[RealtimeFileSplit]
    tasks: dict[str, Sequence[RealtimeFileSplit]]


class PlannedSnapshots:
    """The scans of one table for one query type. Thread-safe: slices are built for one request at a time."""

    def __init__(self, served: ServedTable, scratch: Scratch) -> None:
        """The scans of a table.

        Raises:
            QueryError: the scratch folder lies within the table.
        """
        scratch.require_outside(served.storage)
        self._served = served
        self._scratch = scratch
        self._lock = Lock()
        self._records = SnapshotRecords(scratch)
        self._published = PublishedMetadata(served, scratch)
        self._builder = snapshot_builder(served, scratch)
        self._plans: OrderedDict[str, _Plan] = OrderedDict()
        self._given = GivenSlices(scratch, served.settings.keep_seconds)
        self._garbage = Garbage(scratch, served.settings.keep_seconds)
        self._checked = -_CHECK_SECONDS

    def load(self, as_of: InstantLike | None = None) -> Published:
        """The columns of the newest snapshot and the earlier ones that were loaded, or only those as of an instant.

        Raises:
            HudiReadError: the table cannot be read.
        """
        with self._lock:
            state = self._state(as_of)
            keep = self._served.settings.keep
            listed = [state.record] if as_of is not None else self._records.up_to(state.record, keep)
            self._records.use(listed)
            return self._published.of(state.table, listed)

    def plan(self, as_of: InstantLike | None, request: ScanRequest) -> dict[str, Any]:
        """Plan a scan, by default of the newest snapshot or of that as of an instant: ``PlanTableScanResult`` as JSON.

        Raises:
            QueryError: there is no snapshot of the id, or the filter does not fit.
            HudiReadError: the table cannot be read.
        """
        for remaining in reversed(range(_MOST_TRIES)):
            try:
                return self._planned(as_of, request)
            except (DataFileGoneError, InstantNotReadableError):
                # The cleaner was faster, and there is a newer instant now.
                if as_of is not None or request.snapshot_id is not None or not remaining:
                    raise
        raise AssertionError

    def tasks(self, task: str) -> dict[str, Any]:
        """The scan tasks of a plan task: ``FetchScanTasksResult`` as JSON.

        Raises:
            NoSuchPlanError: there is no such plan task.
            HudiReadError: a slice cannot be read.
        """
        with self._lock:
            plan = self._plans.get(task.partition(".")[0])
            splits = None if plan is None else plan.tasks.get(task)
            if plan is None or splits is None:
                raise NoSuchPlanError("there is no such plan task, or no longer")
            self._plans.move_to_end(plan.id)
            return self._scan_tasks(plan, splits)

    def result(self, id_: str) -> dict[str, Any]:
        """What the plan was answered with: ``FetchPlanningResult`` as JSON.

        Raises:
            NoSuchPlanError: there is no such plan.
            HudiReadError: a slice cannot be read.
        """
        with self._lock:
            if id_ not in self._plans:
                raise NoSuchPlanError(_NO_PLAN)
            return self._completed(self._plans[id_])

    def cancel(self, id_: str) -> None:
        """Forget a plan.

        Raises:
            NoSuchPlanError: there is no such plan.
        """
        with self._lock:
            if self._plans.pop(id_, None) is None:
                raise NoSuchPlanError(_NO_PLAN)

    def _planned(self, as_of: InstantLike | None, request: ScanRequest) -> dict[str, Any]:
        with self._lock:
            newest = self._state(as_of)
            asked = newest
            if request.snapshot_id is not None and request.snapshot_id != newest.record.snapshot_id:
                asked = self._state(self._instant_of(request.snapshot_id))
            bound_to = (asked if request.use_snapshot_schema else newest).record.columns.schema
            columns, case_sensitive = asked.record.columns, request.case_sensitive
            filters = ScanFilter(bound_to=bound_to, columns=columns, case_sensitive=case_sensitive)
            condition = None if request.filter is None else filters.condition(request.filter)
            with operation(_LOG, "plan", table=self._served.storage.shown_path, instant=asked.record.instant):
                splits = _splits(asked.dataset, condition)
            asked.table.require_files_of(asked.record.instant)
            self._builder.require_within_roots(splits)
            id_ = uuid4().hex
            steps = [splits[start : start + _SLICES_AT_ONCE] for start in range(0, len(splits), _SLICES_AT_ONCE)]
            plan = _Plan(
                id=id_,
                state=asked,
                residual=request.filter,
                with_statistics=frozenset(
                    bound_to.find_field(name, case_sensitive).field_id
                    for name in request.stats_fields
                    if _has_field(bound_to, name, case_sensitive=case_sensitive)
                ),
                first=steps[0] if steps else (),
                tasks={f"{id_}.{number}": step for number, step in enumerate(steps[1:], 1)},
            )
            completed = self._completed(plan)
            self._plans[id_] = plan
            while len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)
            self._served.settings.counters.add("scans_planned_total")
            return completed | {"plan-id": id_}

    def _completed(self, plan: _Plan) -> dict[str, Any]:
        more = {"plan-tasks": list(plan.tasks)} if plan.tasks else {}
        return {"status": "completed"} | self._scan_tasks(plan, plan.first) | more

    def _instant_of(self, snapshot_id: int) -> str:
        for record in self._records.all():
            if record.snapshot_id == snapshot_id:
                return record.instant
        raise QueryError("snapshot-id", str(snapshot_id), "a snapshot that the table has been loaded with")

    def _scan_tasks(self, plan: _Plan, splits: Sequence[RealtimeFileSplit]) -> dict[str, Any]:
        builder, settings = plan.state.builder, self._served.settings
        self._refresh_slices()
        files = self._builder.slices.files_of(splits, builder, settings.builders, settings.counters)
        self._given.give(one.name for one in files)
        record = plan.state.record
        return scan_tasks(files, record.columns.schema, record.spec, plan.residual, plan.with_statistics)

    def _state(self, as_of: InstantLike | None) -> _State:
        """The table as clients know it after this: a new instant gets a record."""
        table = self._served.open()
        dataset = self._served.dataset(table, as_of)
        self._records.refresh()
        known_ids = self._records.ids()
        builder = self._builder.slice_builder(table, dataset, known_ids)
        # Scan tasks have no nulls as values of partitions.
        builder = replace(builder, partitioning=replace(builder.partitioning, nulls=False))
        state = self._served.state(table, dataset.instant)
        record = self._records.find(dataset.instant, state)
        if record is None:
            record = self._records.publish(self._record(table, dataset, builder, state, known_ids))
            self._remove_unused()
        return _State(
            table=table, dataset=dataset, record=record, builder=replace(builder, mapped=self._mapped(record))
        )

    def _record(
        self, table: HudiTable, dataset: HudiDataset, builder: SliceBuilder, state: str, known_ids: Ids
    ) -> IcebergSnapshot:
        columns, instant = builder.columns, dataset.instant
        names = {path for version in column_ids(dataset.context) for path in version}
        names |= {*known_ids, *names_to_ids(columns.mapping, columns.schema)}
        return IcebergSnapshot(
            instant=instant,
            state=state,
            timestamp_ms=epoch_ms(instant, table.config.timeline_timezone),
            columns=columns,
            spec=builder.partitioning.spec(columns.schema),
            manifest_list=None,
            manifests=(),
            slices=(),
            own_files=(),
            stored_paths=tuple(sorted(names)),
            data_files=0,
            delete_files=0,
            position_deletes=0,
            rows=0,
            client=None,
            notes=(),
        )

    def _mapped(self, record: IcebergSnapshot) -> frozenset[str]:
        """The columns of base files that all metadata which clients may have map to the same column."""
        own = names_to_ids(record.columns.mapping, record.columns.schema)
        others = (names_to_ids(one.columns.mapping, one.columns.schema) for one in self._records.all())
        doubtful = {path for other in others for path, id_ in other.items() if own.get(path, id_) != id_}
        return frozenset(record.stored_paths) - doubtful

    def _refresh_slices(self) -> None:
        """Find out which slices can be given, in a store once in a while."""
        if not self._scratch.storage.is_local and time.monotonic() - self._checked < _CHECK_SECONDS:
            return
        self._checked = time.monotonic()
        self._given.refresh()
        self._builder.slices.refresh(frozenset(self._scratch.names(DATA)), self._given.usable())
        self._published.keep_present(self._scratch.names(TABLES))

    def _remove_unused(self) -> None:
        """Remove the files of slices that no client was given lately, and earlier records and metadata."""
        settings = self._served.settings
        self._records.drop(settings.keep, settings.keep_seconds)
        self._given.refresh()
        self._given.forget_past()
        removed = self._garbage.remove(self._records, self._given.needed())
        settings.counters.add("files_removed_total", removed)


def _splits(dataset: HudiDataset, condition: pc.Expression | None) -> list[RealtimeFileSplit]:
    """The slices of which rows may pass the condition; all if the condition does not fit the table."""
    try:
        found: Iterable[Any] = list(dataset.splits(condition))
    except QueryError:
        found = dataset.splits()
    return [split for split in found if isinstance(split, RealtimeFileSplit)]


def _has_field(schema: Schema, name: str, *, case_sensitive: bool) -> bool:
    try:
        schema.find_field(name, case_sensitive)
    except ValueError:
        return False
    return True
