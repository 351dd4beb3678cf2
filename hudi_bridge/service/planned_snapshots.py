"""Scans of a Hudi table that the service plans: only the file slices that a scan needs are built.

A load reads no data file. Its metadata have the columns and the snapshots, whose manifest lists are never written: the
client asks for a plan instead. A plan builds its slices in steps, one for each request for scan tasks.

    data/      rows and position deletes of file slices
    slices/    the cache entry of each slice
    given/     notes of the slices that clients were given
    snapshots/ one record for each instant that was loaded
    tables/    Iceberg table metadata

Any number of services may use one folder, but only the service that made a plan knows it. It keeps the plans of all
tables in memory, with shared room for slices: a plan goes when it was not used for some minutes, or when later plans
need its room. Plans of the same slices for the same filter share one list of them.

Only records and notes are read and written under the lock of a table. Slices are built outside of it, so that clients
do not wait for one another.
"""

import contextlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any
from uuid import uuid4

from pyiceberg.schema import Schema

from hudi_bridge.common.operations import operation
from hudi_bridge.common.threads import KeyedLocks
from hudi_bridge.connectors.iceberg.columns import Ids, model_json, names_to_ids
from hudi_bridge.connectors.iceberg.metadata import IcebergSnapshot, epoch_ms
from hudi_bridge.connectors.iceberg.served_table import Published, PublishedMetadata, ServedTable
from hudi_bridge.connectors.iceberg.slice_builder import SliceBuilder
from hudi_bridge.connectors.iceberg.slice_cache import GivenSlices
from hudi_bridge.connectors.iceberg.slice_files import Folder
from hudi_bridge.connectors.iceberg.snapshot_builder import snapshot_builder
from hudi_bridge.connectors.iceberg.snapshot_records import Garbage, SnapshotRecords
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines import column_ids, identity
from hudi_bridge.errors import DataFileGoneError, InstantNotReadableError, QueryError
from hudi_bridge.service.scan_filters import ScanFilter
from hudi_bridge.service.scans import ScanRequest, scan_tasks
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike

_LOG = logging.getLogger(__name__)

_MOST_SLICES = 100_000
"""They take about 100 MiB."""
_UNUSED_SECONDS = 900.0
_SLICES_AT_ONCE = 64
"""How many slices a request builds at most, so that clients get tasks before all are built."""
_MOST_TRIES = 3
_CHECK_SECONDS = 60.0
_NO_PLAN = "there is no such plan, or no longer"
_NO_TASK = "there is no such plan task, or no longer"
_SLICES_OF_A_STATE = 100
"""As many slices take the memory of what a scan knows of its table."""
_BYTES_OF_A_SLICE = 100
"""So many bytes of a filter, as text, take the memory of a slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The slices of a state whose rows may match a filter, and their builder; ``residual`` is the filter as JSON.

    ``identity`` is a hash of the state and the filter. ``weight`` is the number of slices that the scan counts as.
    """

    identity: str
    record: IcebergSnapshot
    builder: SliceBuilder
    residual: Any
    splits: Sequence[RealtimeFileSplit]
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A scan with the id by which a client asks for its tasks.

    ``table`` names what is scanned. The client gets the statistics of columns whose ids are in ``with_statistics``.
    """

    id: str
    table: str
    scan: Scan
    with_statistics: frozenset[int]


class KeptPlans:
    """The plans of all tables of a service. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        # By id, with the time of the last use; the plan that is unused for the longest time comes first.
        self._plans: OrderedDict[str, tuple[Plan, float]] = OrderedDict()
        # By identity, with the number of plans that share the scan.
        self._scans: dict[str, tuple[Scan, int]] = {}
        self._slices = 0

    def add(self, plan: Plan) -> None:
        """Keeps a plan, and forgets others if all have too many slices."""
        with self._lock:
            scan, plans = self._scans.get(plan.scan.identity, (plan.scan, 0))
            self._scans[scan.identity] = scan, plans + 1
            self._plans[plan.id] = plan, time.monotonic()
            self._slices += 1 + (0 if plans else scan.weight)
            self._forget_unused()

    def find(self, table: str, id_: str) -> Plan | None:
        """The plan of a table with an id, which counts as used now; None if there is none."""
        with self._lock:
            self._forget_unused()
            plan, _ = self._plans.get(id_, (None, 0.0))
            if plan is None or plan.table != table:
                return None
            self._plans[id_] = plan, time.monotonic()
            self._plans.move_to_end(id_)
            return plan

    def scan(self, identity: str) -> Scan | None:
        """The scan of the plans with an identity; None if there are none."""
        with self._lock:
            self._forget_unused()
            scan, _ = self._scans.get(identity, (None, 0))
            return scan

    def forget(self, plan: Plan) -> None:
        """Forgets a plan, if it is kept."""
        with self._lock:
            self._forget(plan.id)

    def forget_unused(self) -> None:
        """Forgets the plans that were not used for too long."""
        with self._lock:
            self._forget_unused()

    def _forget_unused(self) -> None:
        unused_since = time.monotonic() - _UNUSED_SECONDS
        while self._plans:
            id_, (_, last_use) = next(iter(self._plans.items()))
            has_room = self._slices <= _MOST_SLICES or len(self._plans) == 1
            if last_use > unused_since and has_room:
                return
            self._forget(id_)

    def _forget(self, id_: str) -> None:
        plan, _ = self._plans.pop(id_, (None, 0.0))
        if plan is None:
            return
        scan, plans = self._scans.pop(plan.scan.identity)
        self._slices -= 1 + (0 if plans > 1 else scan.weight)
        if plans > 1:
            self._scans[scan.identity] = scan, plans - 1


class NoSuchPlanError(Exception):
    """Raised for a plan or a plan task that the service does not have, or no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A table as of an instant: its record, which has the columns as clients know them, and the builder of slices."""

    table: HudiTable
    dataset: HudiDataset
    record: IcebergSnapshot
    builder: SliceBuilder


class PlannedSnapshots:
    """The scans of one table for one query type. Thread-safe."""

    def __init__(self, served: ServedTable, scratch: Scratch, plans: KeptPlans) -> None:
        """The scans of a table, whose plans are kept among ``plans``.

        Raises:
            QueryError: the scratch folder lies within the table.
        """
        scratch.require_outside(served.storage)
        self._served = served
        self._scratch = scratch
        self._name = scratch.storage.location()
        self._plans = plans
        self._scans = KeyedLocks()
        self._builder = snapshot_builder(served, scratch)
        # Guards what follows, which is not thread-safe.
        self._lock = Lock()
        self._records = SnapshotRecords(scratch)
        self._published = PublishedMetadata(served, scratch)
        self._given = GivenSlices(scratch, served.settings.keep_seconds)
        self._garbage = Garbage(scratch, served.settings.keep_seconds)
        self._checked = -_CHECK_SECONDS

    def load(self, as_of: InstantLike | None = None) -> Published:
        """The columns of the newest snapshot and the earlier ones that were loaded, or only those as of an instant.

        Raises:
            HudiReadError: the table cannot be read.
        """
        self._plans.forget_unused()
        with self._lock:
            state = self._state(as_of)
            keep = self._served.settings.keep
            listed = [state.record] if as_of is not None else self._records.up_to(state.record, keep)
            self._records.use(listed)
            return self._published.of(state.table, listed)

    def plan(self, as_of: InstantLike | None, request: ScanRequest) -> dict[str, Any]:
        """Plans a scan, by default of the newest snapshot or of that as of an instant: ``PlanTableScanResult`` as JSON.

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
        plan = self._plans.find(self._name, task.partition(".")[0])
        tasks = [] if plan is None else _tasks(plan)
        if plan is None or task not in tasks:
            raise NoSuchPlanError(_NO_TASK)
        return self._scan_tasks(plan, 1 + tasks.index(task))

    def result(self, id_: str) -> dict[str, Any]:
        """The answer to a plan: ``FetchPlanningResult`` as JSON.

        Raises:
            NoSuchPlanError: there is no such plan.
            HudiReadError: a slice cannot be read.
        """
        return self._completed(self._plan(id_))

    def cancel(self, id_: str) -> None:
        """Forgets a plan.

        Raises:
            NoSuchPlanError: there is no such plan.
        """
        self._plans.forget(self._plan(id_))

    def _plan(self, id_: str) -> Plan:
        plan = self._plans.find(self._name, id_)
        if plan is None:
            raise NoSuchPlanError(_NO_PLAN)
        return plan

    def _planned(self, as_of: InstantLike | None, request: ScanRequest) -> dict[str, Any]:
        with self._lock:
            newest = self._state(as_of)
            state = newest
            if request.snapshot_id is not None and request.snapshot_id != newest.record.snapshot_id:
                state = self._state(self._instant_of(request.snapshot_id))
        bound_to = (state if request.use_snapshot_schema else newest).record.columns.schema
        plan = self._new_plan(state, bound_to, request)
        try:
            completed = self._completed(plan)
        except BaseException:
            self._plans.forget(plan)
            raise
        if self._plans.find(self._name, plan.id) is None:
            # Other plans needed its room while its slices were built.
            self._plans.add(plan)
        self._served.settings.counters.add("scans_planned_total")
        return completed | {"plan-id": plan.id}

    def _new_plan(self, state: _State, bound_to: Schema, request: ScanRequest) -> Plan:
        """A plan that is kept; plans of the same scan share it."""
        residual = json.dumps(request.filter)
        meaning = (model_json(bound_to), request.case_sensitive, residual)
        record = state.record
        scan_identity = identity(self._name, record.instant, record.state, state.builder.identity, *meaning)
        with self._scans.locked(scan_identity):
            scan = self._plans.scan(scan_identity)
            if scan is None:
                with operation(_LOG, "plan", table=self._served.storage.shown_path, instant=record.instant):
                    splits = _splits_for(state, bound_to, request)
                scan = Scan(
                    identity=scan_identity,
                    record=record,
                    builder=state.builder,
                    residual=request.filter,
                    splits=splits,
                    weight=len(splits) + _SLICES_OF_A_STATE + len(residual) // _BYTES_OF_A_SLICE,
                )
            state.table.require_files_of(record.instant)
            self._builder.require_within_roots(scan.splits)
            plan = Plan(
                id=uuid4().hex,
                table=self._name,
                scan=scan,
                with_statistics=_ids_of(request.stats_fields, bound_to, case_sensitive=request.case_sensitive),
            )
            self._plans.add(plan)
            return plan

    def _completed(self, plan: Plan) -> dict[str, Any]:
        tasks = _tasks(plan)
        return {"status": "completed"} | self._scan_tasks(plan, 0) | ({"plan-tasks": tasks} if tasks else {})

    def _instant_of(self, snapshot_id: int) -> str:
        for record in self._records.all():
            if record.snapshot_id == snapshot_id:
                return record.instant
        raise QueryError("snapshot-id", str(snapshot_id), "a snapshot that the table has been loaded with")

    def _scan_tasks(self, plan: Plan, step: int) -> dict[str, Any]:
        """The tasks of a step of the plan: step 0 comes with the plan, later steps by plan task."""
        scan, settings = plan.scan, self._served.settings
        splits = scan.splits[step * _SLICES_AT_ONCE : (step + 1) * _SLICES_AT_ONCE]
        with self._lock:
            self._refresh_slices()
        slices = self._builder.slices.files_of(splits, scan.builder, settings.builders, settings.counters)
        with self._lock:
            self._given.give(name for files in slices for name in files.names)
        record = scan.record
        return scan_tasks(slices, record.columns.schema, record.spec, scan.residual, plan.with_statistics)

    def _state(self, as_of: InstantLike | None) -> _State:
        """The table as of an instant, by default the newest; a new instant gets a record, as clients learn of it."""
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
        """The columns of base files that have the same id in all metadata that clients may have."""
        ids = names_to_ids(record.columns.mapping, record.columns.schema)
        ids_by_record = (names_to_ids(other.columns.mapping, other.columns.schema) for other in self._records.all())
        ambiguous = {path for others in ids_by_record for path, id_ in others.items() if ids.get(path, id_) != id_}
        return frozenset(record.stored_paths) - ambiguous

    def _refresh_slices(self) -> None:
        """Looks which slices can be given; for a scratch folder in a store only once in ``_CHECK_SECONDS``."""
        if not self._scratch.storage.is_local and time.monotonic() - self._checked < _CHECK_SECONDS:
            return
        self._checked = time.monotonic()
        self._given.refresh()
        self._builder.slices.refresh(self._given.usable())
        self._published.keep_present(self._scratch.names(Folder.TABLES))

    def _remove_unused(self) -> None:
        """Removes the files of slices that no client was given lately, and earlier records and metadata."""
        settings = self._served.settings
        self._records.drop(settings.keep, settings.keep_seconds)
        self._given.refresh()
        self._given.forget_past()
        removed = self._garbage.remove(self._records, self._given.needed())
        settings.counters.add("files_removed_total", removed)


def _tasks(plan: Plan) -> list[str]:
    """The names of the plan tasks, one for each step but the first."""
    steps = len(range(0, len(plan.scan.splits), _SLICES_AT_ONCE))
    return [f"{plan.id}.{number}" for number in range(1, steps)]


def _splits_for(state: _State, bound_to: Schema, request: ScanRequest) -> list[RealtimeFileSplit]:
    """The slices whose rows may pass the filter; all slices if the filter does not fit the table."""
    columns, dataset, condition = state.record.columns, state.dataset, None
    if request.filter is not None:
        filters = ScanFilter(bound_to=bound_to, columns=columns, case_sensitive=request.case_sensitive)
        condition = filters.condition(request.filter)
    try:
        splits: Iterable[Any] = list(dataset.splits(condition))
    except QueryError:
        splits = dataset.splits()
    return [split for split in splits if isinstance(split, RealtimeFileSplit)]


def _ids_of(names: Iterable[str], schema: Schema, *, case_sensitive: bool) -> frozenset[int]:
    """The ids of columns by name; names that the schema lacks are left out."""
    ids = set()
    for name in names:
        with contextlib.suppress(ValueError):
            ids.add(schema.find_field(name, case_sensitive).field_id)
    return frozenset(ids)
