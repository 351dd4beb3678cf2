"""Random histories of a table: writes, deletes, table services, failed writes and added columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from hudi_bridge.logformat.layout import BlockType, HeaderKey
from tests.logformat.log_writer import log_block
from tests.support.table_writer import KEY_AND_VALUE, Row, TableWriter, at

PARTITIONS = ("a", "b")
FIELDS = (*KEY_AND_VALUE, ("part", "string"))
ADDED = (("more", "string"), ("count", "long"))
COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
PAYLOAD = "hoodie.compaction.payload.class"
PARTIAL_PAYLOAD = {PAYLOAD: "org.apache.hudi.common.model.PartialUpdateAvroPayload"}
DEFAULT_PAYLOAD = {PAYLOAD: "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
TABLES: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "commit time": (9, COMMIT_TIME),
    "event time": (9, EVENT_TIME),
    "partial update": (6, PARTIAL_PAYLOAD),
    "default payload": (6, DEFAULT_PAYLOAD),
    "partial update, 1.1": (8, PARTIAL_PAYLOAD | {"hoodie.table.format": "native"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write: what it does, to which partition, and to which records."""

    kind: str
    partition: str
    rows: tuple[Row, ...]


ROWS = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["k0", "k1", "k2", "k3", "k4"]),
        "ts": st.integers(0, 3),
        "value": st.sampled_from([None, "a", "b"]),
    }
)
KINDS = st.sampled_from(
    ["log", "log", "delete", "compact", "overwrite", "add column", "begin", "complete", "roll back", "plan", "forget"]
)
STEPS = st.lists(
    st.builds(
        Step,
        kind=KINDS,
        partition=st.sampled_from(PARTITIONS),
        rows=st.lists(ROWS, min_size=1, max_size=4, unique_by=lambda row: str(row["id"])).map(tuple),
    ),
    min_size=1,
    max_size=9,
)


@dataclass(slots=True, kw_only=True)
class History:
    """A table that begins with a base file in each partition, and then takes one step after the other.

    Of each partition, ``groups`` holds the file group and its base instant. ``begun`` are the instants of writes whose
    files are there and which have not completed.
    """

    writer: TableWriter
    number: int = 0
    groups: dict[str, tuple[str, str]] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    planned: set[str] = field(default_factory=set)

    def take(self, step: Step | None) -> None:
        """One step, which changes nothing where it does not fit; the first is none."""
        self.number += 1
        instant = at(self.number)
        if step is None:
            self._begin(instant)
        elif step.kind in ("log", "delete", "begin", "add column"):
            self._write(instant, step)
        elif self.begun:
            if step.kind == "complete":
                self.writer.commit(self.begun.pop(), completed=str(int(instant) + 50))
            elif step.kind == "roll back":
                self._roll_back(instant)
        elif step.partition not in self.planned:
            self._reorganize(instant, step)

    def _begin(self, instant: str) -> None:
        rows: list[Row] = [{"id": f"k{number}", "ts": 0, "value": "base"} for number in range(3)]
        for partition in PARTITIONS:
            self._base(instant, f"{partition}-0", partition, rows)
        self.writer.commit(instant)

    def _write(self, instant: str, step: Step) -> None:
        if step.kind == "add column":
            have = self.writer.fields
            self.writer = replace(self.writer, fields=(*have, *ADDED[len(have) - len(FIELDS) :][:1]))
        self._log(instant, step.partition, self._block(instant, step))
        if step.kind == "begin":
            self.writer.pending(instant)
            self.begun.append(instant)
        else:
            self.writer.commit(instant)

    def _reorganize(self, instant: str, step: Step) -> None:
        """What table services do, and overwriting; none of them comes while a write goes on."""
        group, _ = self.groups[step.partition]
        if step.kind == "plan":
            self.writer.pending_compaction(instant, [(step.partition, group)])
            self.planned.add(step.partition)
            # From now on, before version 8, log files are named after the compaction.
            self.groups[step.partition] = (group, instant)
        elif step.kind == "compact":
            rows = self._merged(group)
            self.writer.pending_compaction(instant, [(step.partition, group)])
            self._base(instant, group, step.partition, rows)
            self.writer.commit(instant, action="commit", operation="COMPACT")
        elif step.kind == "overwrite":
            self._base(instant, f"{step.partition}-{self.number}", step.partition, step.rows)
            self.writer.commit(instant, action="replacecommit", replaced={step.partition: [group]})

    def _base(self, instant: str, group: str, partition: str, rows: Sequence[Row]) -> None:
        self.writer.base_file(instant, [self._row(row, partition) for row in rows], file_id=group, partition=partition)
        self.groups[partition] = (group, instant)

    def _row(self, row: Row, partition: str) -> Row:
        added = {name: f"{name}{self.number}" if kind == "string" else self.number for name, kind in ADDED}
        return {**added, **row, "part": partition}

    def _block(self, instant: str, step: Step) -> bytes:
        if step.kind == "delete":
            return self.writer.delete_block(
                instant, [(row["id"], row["ts"]) for row in step.rows], partition=step.partition
            )
        group, _ = self.groups[step.partition]
        rows = [self._row(row, step.partition) for row in step.rows]
        return self.writer.data_block(instant, rows, file_id=group, partition=step.partition)

    def _log(self, instant: str, partition: str, block: bytes) -> None:
        group, base = self.groups[partition]
        self.writer.log_file(
            instant, [block], base_instant=base, number=self.number, file_id=group, partition=partition
        )

    def _roll_back(self, instant: str) -> None:
        """The files of a write go or, before version 8, a block says that those of its instant do not count."""
        begun = self.begun.pop()
        (self.writer.timeline_folder / f"{begun}.deltacommit.requested").unlink()
        if self.writer.version >= 8:
            for path in self.writer.folder.rglob(f".*_{begun}.log.*"):
                path.unlink()
            return
        header: dict[int, str] = {
            HeaderKey.INSTANT_TIME: instant,
            HeaderKey.TARGET_INSTANT_TIME: begun,
            HeaderKey.COMMAND_BLOCK_TYPE: "0",
        }
        for partition in PARTITIONS:
            self._log(instant, partition, log_block(BlockType.COMMAND, b"", header))

    def _merged(self, group: str) -> list[Row]:
        table = self.writer.open().snapshot().to_table()
        names = table["_hoodie_file_name"].to_pylist()
        rows: list[Row] = list(table.select([name for name, _ in self.writer.fields]).to_pylist())
        return [row for row, name in zip(rows, names, strict=True) if str(name).startswith(group)]
