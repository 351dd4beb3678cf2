"""Each check finds a damage that is made for it."""

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from hudi_bridge import HudiReadError, HudiTable, InstantNotReadableError, TableNotFoundError, tools
from hudi_bridge.common.display import size_text
from hudi_bridge.indexes.metadata_table import Validity
from hudi_bridge.logformat.layout import HeaderKey
from hudi_bridge.timeline.instant import Instant, instant_file_name
from hudi_bridge.tools.checks.examination import CHECKS, examine
from hudi_bridge.tools.checks.examined import Examined
from hudi_bridge.tools.checks.findings import Diagnosis, Limits, Severity
from tests.support.golden_cases import golden_table
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at, record_positions
from tests.timeline.timeline_files import clean_plan, container, list_of

NOW = at(9)
LATER = "20260201000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A table with one thing wrong, made in a folder, and what is found: severity, path and a part of the text."""

    make: Callable[[Path], Path]
    severity: Severity
    path: str
    found: str
    limits: Limits = field(default_factory=Limits)
    deep: bool = False
    now: str = NOW


def healthy(folder: Path, **options: Any) -> TableWriter:
    """A table of version 9 with a base file and a log file, both named by their commits."""
    writer = TableWriter(folder=folder / "t", **options).create()
    base = writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}, {"id": "b", "ts": 1, "value": "y"}])
    writer.commit(at(1), wrote=[base])
    log = writer.log_file(at(2), [writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "z"}])])
    writer.commit(at(2), wrote=[log])
    return writer


def golden_copy(name: str, folder: Path) -> Path:
    shutil.copytree(golden_table(name), folder / "t")
    return folder / "t"


def only(folder: Path, pattern: str) -> Path:
    return min(folder.glob(pattern))


def truncate(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def overwrite(path: Path, start: int, content: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[start : start + len(content)] = content
    path.write_bytes(data)


def with_log(folder: Path, *blocks: bytes, writer: TableWriter | None = None) -> Path:
    """The healthy table with one more log file, of a commit that names it."""
    writer = writer or healthy(folder)
    writer.commit(at(3), wrote=[writer.log_file(at(3), blocks)])
    return writer.folder


def damaged_commit(folder: Path) -> Path:
    writer = healthy(folder)
    truncate(only(writer.timeline_folder, f"{at(2)}_*"), 100)
    return writer.folder


def completed_before_requested(folder: Path) -> Path:
    writer = healthy(folder)
    writer.commit(at(3), completed=at(1))
    return writer.folder


def lost_plan(folder: Path) -> Path:
    writer = healthy(folder)
    (writer.timeline_folder / f"{at(3)}.logcompaction.inflight").write_bytes(b"")
    return writer.folder


def stuck_write(folder: Path) -> Path:
    writer = healthy(folder)
    writer.pending(at(3))
    return writer.folder


def undone_write(folder: Path) -> Path:
    writer = healthy(folder)
    content = container("HoodieRollbackMetadata", {"commitsRollback": list_of("string")}, {"commitsRollback": [at(2)]})
    (writer.timeline_folder / f"{at(3)}_{at(4)}.rollback").write_bytes(content)
    return writer.folder


def lost_archive_file(folder: Path) -> Path:
    table = golden_copy("d_archived_120", folder)
    only(table / ".hoodie" / "timeline" / "history", "*.parquet").unlink()
    return table


def two_modes(folder: Path) -> Path:
    options = {
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.record.merge.strategy.id": "ce9acb64-bde0-424c-9b91-f6ebba25356d",
    }
    return healthy(folder, options=options).folder


def no_partition(folder: Path) -> Path:
    writer = TableWriter(folder=folder / "t", partition_fields=("value",)).create()
    base = writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}], partition="x")
    writer.commit(at(1), wrote=[base])
    (writer.folder / "x" / ".hoodie_partition_metadata").unlink()
    return writer.folder


def left_over(folder: Path) -> Path:
    writer = healthy(folder)
    writer.base_file(at(3), [{"id": "a", "ts": 1, "value": "x"}])
    return writer.folder


def of_failed_task(folder: Path) -> Path:
    writer = healthy(folder)
    writer.base_file(at(1), [{"id": "c", "ts": 1, "value": "x"}], file_id="f2-0")
    return writer.folder


def second_base_file(folder: Path) -> Path:
    writer = healthy(folder)
    base = only(writer.folder, "f1-0_*.parquet")
    shutil.copy(base, base.with_name(base.name.replace("_0-1-1_", "_0-2-2_")))
    return writer.folder


def log_of_compaction(folder: Path) -> Path:
    writer = healthy(folder)
    writer.pending_compaction(at(3), [("", "f1-0")])
    writer.log_file(at(3), [writer.data_block(at(3), [{"id": "a", "ts": 3, "value": "z"}])])
    return writer.folder


def lost_log(folder: Path) -> Path:
    writer = healthy(folder)
    only(writer.folder, ".f1-0_*.log.*").unlink()
    return writer.folder


def damaged_base(folder: Path) -> Path:
    writer = healthy(folder)
    base = only(writer.folder, "f1-0_*.parquet")
    overwrite(base, base.stat().st_size - 40, b"\xff" * 20)
    return writer.folder


def other_base(folder: Path) -> Path:
    writer = healthy(folder)
    writer.base_file(at(1), [{"id": str(number), "ts": 1, "value": "x"} for number in range(99)])
    return writer.folder


def without_meta_columns(folder: Path) -> Path:
    writer = healthy(folder)
    base = only(writer.folder, "f1-0_*.parquet")
    pq.write_table(pq.read_table(base).select(["id", "ts", "value"]), base)
    return writer.folder


def torn_block(folder: Path) -> Path:
    writer = healthy(folder)
    log = only(writer.folder, ".f1-0_*.log.*")
    truncate(log, log.stat().st_size - 9)
    return writer.folder


def unknown_instant(folder: Path) -> Path:
    writer = healthy(folder)
    blocks = [writer.data_block(time, [{"id": "a", "ts": 3, "value": "z"}]) for time in (at(3), at(5))]
    return with_log(folder, *blocks, writer=writer)


def cut_log(folder: Path) -> Path:
    writer = healthy(folder)
    block = writer.data_block(at(3), [{"id": "a", "ts": 3, "value": "z"}])
    table = with_log(folder, block, block, writer=writer)
    truncate(only(table, f".f1-0_{at(3)}*"), len(block))
    return table


def position_beyond(folder: Path) -> Path:
    writer = healthy(folder)
    rows = [{"id": "a", "ts": 3, "value": "z"}]
    return with_log(folder, writer.data_block(at(3), rows, positions=record_positions([7], at(1))), writer=writer)


def damaged_schema(folder: Path) -> Path:
    writer = healthy(folder, version=6)
    commit = writer.timeline_folder / f"{at(1)}.deltacommit"
    document = json.loads(commit.read_text())
    document["extraMetadata"]["schema"] = '{"type": "nonsense"}'
    commit.write_text(json.dumps(document))
    return writer.folder


def other_type(folder: Path) -> Path:
    writer = healthy(folder)
    base = only(writer.folder, "f1-0_*.parquet")
    rows = pq.read_table(base)
    texts: Any = pa.array([{"of": "another type"}] * len(rows))
    pq.write_table(rows.set_column(rows.schema.get_field_index("ts"), "ts", texts), base)
    return writer.folder


def damaged_index(folder: Path) -> Path:
    table = golden_copy("h_all_indexes_120", folder)
    truncate(only(table / ".hoodie" / "metadata" / "record_index", "*.hfile"), 300)
    return table


def lost_base(folder: Path) -> Path:
    table = golden_copy("h_all_indexes_120", folder)
    newest = HudiTable.open(table).file_slices()[0].base_file
    assert newest is not None
    (table / newest.path).unlink()
    return table


def compacted_before_rollback(folder: Path) -> Path:
    """A commit is being rolled back, and the metadata table has compacted what it wrote there."""
    table = golden_copy("h_all_indexes_120", folder)
    timeline = table / ".hoodie" / "timeline"
    compaction = only(table / ".hoodie" / "metadata" / ".hoodie" / "timeline", "*.compaction.requested").name
    commits = sorted(path for path in timeline.glob("*_*.deltacommit") if path.stem.partition("_")[2] < compaction)
    commits[-1].unlink()
    (timeline / f"{at(9)}.rollback.requested").write_bytes(b"")
    return table


def damaged_records(folder: Path) -> Path:
    table = golden_copy("h_all_indexes_120", folder)
    overwrite(only(table / ".hoodie" / "metadata" / "record_index", "*.hfile"), 40, bytes(60))
    return table


def other_values(folder: Path) -> Path:
    table = golden_copy("h_column_stats_120", folder)
    base = HudiTable.open(table).file_slices()[0].base_file
    assert base is not None
    rows = pq.read_table(table / base.path)
    texts: Any = pa.array(["~" * 3] * len(rows))
    pq.write_table(rows.set_column(rows.schema.get_field_index("id"), "id", texts), table / base.path)
    return table


def many_logs(folder: Path) -> Path:
    writer = healthy(folder)
    for number in range(3, 7):
        block = writer.data_block(at(number), [{"id": "a", "ts": number, "value": "z" * 3000}])
        writer.commit(at(number), wrote=[writer.log_file(at(number), [block])])
    return writer.folder


def many_partitions(folder: Path) -> Path:
    writer = TableWriter(folder=folder / "t", partition_fields=("value",)).create()
    files = [
        writer.base_file(
            at(1),
            [{"id": f"{path}-{number}-{'x' * number}", "ts": number, "value": path} for number in range(rows)],
            partition=path,
            file_id=f"{path}{part}-0",
        )
        for path, rows in (("a", 1), ("b", 1), ("c", 1), ("d", 900))
        for part in range(3)
    ]
    writer.commit(at(1), wrote=files)
    return writer.folder


def uncleaned(folder: Path) -> Path:
    writer = healthy(folder)
    for number in range(3, 8):
        rows = [{"id": "a", "ts": number, "value": "x"}]
        writer.commit(at(number), action="commit", wrote=[writer.base_file(at(number), rows)], operation="COMPACT")
    return writer.folder


def twice(folder: Path) -> Path:
    writer = healthy(folder)
    base = writer.base_file(at(3), [{"id": "b", "ts": 1, "value": "x"}], file_id="f2-0")
    writer.commit(at(3), wrote=[base])
    return writer.folder


def dead_writer(folder: Path) -> Path:
    """A writer has died at work, and another has left its markers when it had completed."""
    writer = healthy(folder)
    for name in (".heartbeat", ".temp"):
        (writer.folder / ".hoodie" / name).mkdir()
    (writer.folder / ".hoodie" / ".heartbeat" / at(5)).write_bytes(b"")
    for instant in (at(2), at(5)):
        (writer.folder / ".hoodie" / ".temp" / instant).mkdir()
    return writer.folder


def other_base_of(name: str, column: str, value: str) -> Callable[[Path], Path]:
    """A copy of a golden table, with another text in all rows of a base file; the Bloom filter stays as it is."""

    def make(folder: Path) -> Path:
        table = golden_copy(name, folder)
        base = max(
            (
                file_slice.base_file
                for file_slice in HudiTable.open(table).file_slices()
                if file_slice.base_file is not None
            ),
            key=lambda one: one.size_bytes,
        )
        rows = pq.ParquetFile(table / base.path).read()
        texts: Any = pa.array([value] * len(rows))
        pq.write_table(rows.set_column(rows.schema.get_field_index(column), column, texts), table / base.path)
        return table

    return make


def other_filter(folder: Path) -> Path:
    table = golden_copy("h_bloom_mdt_120", folder)
    base = HudiTable.open(table).file_slices()[0].base_file
    assert base is not None
    rows = pq.read_table(table / base.path)
    metadata = rows.schema.metadata or {}
    (name,) = (key for key in metadata if key.endswith(b"hudi.bloomfilter"))
    changed = rows.replace_schema_metadata(metadata | {name: b"AAAA" + metadata[name][4:]})
    pq.write_table(changed, table / base.path)
    return table


SMALL = Limits(small_file_bytes=20_000, delta_commits=4, skew=3)
ERROR, WARNING, ADVICE, INFO = Severity.ERROR, Severity.WARNING, Severity.ADVICE, Severity.INFO
LOG = r"\.f1-0_.*\.log\.1_0-1-1"


def milliseconds(folder: Path) -> Path:
    """A table whose times are labelled as microseconds, and are milliseconds of 2023."""
    fields = ("id", "string"), ("ts", {"type": "long", "logicalType": "timestamp-micros"})
    table = TableWriter(folder=folder / "t", fields=fields).create()
    table.base_file(at(1), [{"id": "a", "ts": datetime.fromtimestamp(1_700_000, UTC)}])
    table.commit(at(1))
    return table.folder


DAMAGES = {
    "timeline-files": Damage(make=damaged_commit, severity=ERROR, path=r".*\.deltacommit", found="."),
    "timeline-order": Damage(make=completed_before_requested, severity=ERROR, path=rf".*{at(3)}_.*", found="before"),
    "timeline-gaps": Damage(make=lost_plan, severity=ERROR, path=rf".*{at(3)}.*", found="without its plan"),
    "pending-actions": Damage(
        make=stuck_write, severity=WARNING, path=rf".*{at(3)}\.deltacommit\.requested", found="31 days", now=LATER
    ),
    "rollbacks": Damage(make=undone_write, severity=ERROR, path=rf".*{at(2)}_.*", found="has undone"),
    "heartbeats": Damage(
        make=dead_writer, severity=WARNING, path=rf".*heartbeat/{at(5)}", found="does not know", now=LATER
    ),
    "marker-folders": Damage(
        make=dead_writer, severity=ADVICE, path=rf".*temp/{at(2)}", found="which has completed", now=LATER
    ),
    "archived-timeline": Damage(make=lost_archive_file, severity=ERROR, path=r".*/history/.*", found="no such file"),
    "properties": Damage(make=two_modes, severity=ERROR, path=r".*hoodie\.properties", found="EVENT_TIME_ORDERING"),
    "partition-metadata": Damage(make=no_partition, severity=ERROR, path="x", found="1 data files"),
    "files-of-failed-writes": Damage(make=left_over, severity=WARNING, path=rf".*{at(3)}\.parquet", found="1 data"),
    "files-no-commit-names": Damage(make=of_failed_task, severity=ERROR, path=r"f2-0_.*", found="does not name"),
    "base-file-twice": Damage(make=second_base_file, severity=ERROR, path=r"f1-0_0-2-2_.*", found="2 base files"),
    "logs-of-compactions": Damage(make=log_of_compaction, severity=ERROR, path=LOG, found="pending compaction"),
    "missing-files": Damage(make=lost_log, severity=ERROR, path=LOG, found="no such file"),
    "base-footers": Damage(make=damaged_base, severity=ERROR, path=r"f1-0_.*\.parquet", found="."),
    "base-file-sizes": Damage(make=other_base, severity=ERROR, path=r"f1-0_.*\.parquet", found="bytes"),
    "meta-columns": Damage(make=without_meta_columns, severity=ERROR, path=r"f1-0_.*\.parquet", found="without"),
    "log-blocks": Damage(make=torn_block, severity=ERROR, path=LOG, found="the block ends at byte"),
    "log-instants": Damage(make=unknown_instant, severity=WARNING, path=LOG, found=f"'{at(5)}', which the timeline"),
    "log-sizes": Damage(make=cut_log, severity=ERROR, path=LOG, found="bytes"),
    "record-positions": Damage(make=position_beyond, severity=ERROR, path=LOG, found="the position 7"),
    "schema-history": Damage(make=damaged_schema, severity=ERROR, path="None", found=f"in the commit {at(1)}"),
    "file-schemas": Damage(make=other_type, severity=ERROR, path=r"f1-0_.*", found="the column 'ts'"),
    "metadata-table": Damage(make=damaged_index, severity=ERROR, path=r".*/record_index/.*\.hfile", found="."),
    "metadata-files": Damage(make=lost_base, severity=ERROR, path=r".*\.parquet", found="no such file"),
    "metadata-records": Damage(make=damaged_records, severity=ERROR, path=r".*/record_index.*", found=".", deep=True),
    "column-stats": Damage(
        make=other_values, severity=ERROR, path=r".*\.parquet", found="in column_stats values of 'id'", deep=True
    ),
    "partition-stats": Damage(
        make=other_base_of("h_all_indexes_120", "id", "~~~"),
        severity=ERROR,
        path=r".*\.parquet",
        found="in partition_stats values of 'id' in its partition",
        deep=True,
    ),
    "expression-stats": Damage(
        make=other_base_of("h_sql_indexes_updated_102", "city", "ZZZ"),
        severity=ERROR,
        path=r".*\.parquet",
        found=r"in expr_index_idx_low results of lower\('city'\)",
        deep=True,
    ),
    "bloom-filters": Damage(
        make=other_filter, severity=ERROR, path=r".*\.parquet", found="another in bloom_filters", deep=True
    ),
    "timestamp-units": Damage(
        make=milliseconds, severity=WARNING, path="None", found="1970-01-20 .* 'ts' of 1 base files", deep=True
    ),
    "secondary-index": Damage(
        make=other_base_of("h_secondary_index_120", "city", "nowhere"),
        severity=ERROR,
        path=r".*secondary_index_idx_city",
        found="for their values of 'city'",
        deep=True,
    ),
    "keys-twice": Damage(make=twice, severity=WARNING, path="f1-0|f2-0", found="'b'", deep=True),
    "log-ratio": Damage(make=many_logs, severity=ADVICE, path="None", found="'/f1-0'"),
    "compaction-overdue": Damage(make=many_logs, severity=ADVICE, path="None", found="1 file slices with 5"),
    "small-files": Damage(make=many_partitions, severity=ADVICE, path="None", found="'a'", limits=SMALL),
    "skew": Damage(make=many_partitions, severity=ADVICE, path="None", found="partition 'd'", limits=SMALL),
    "old-slices": Damage(make=uncleaned, severity=ADVICE, path="None", found="5 base files"),
    "horizon": Damage(make=lambda folder: healthy(folder).folder, severity=INFO, path="None", found=at(1)),
    "files-not-looked-into": Damage(
        make=many_partitions, severity=INFO, path="None", found="12 base files", limits=Limits(files=2)
    ),
}


def find(damage: Damage, table: Path) -> Diagnosis:
    return examine(table, deep=damage.deep, now=damage.now, limits=damage.limits)


@pytest.mark.parametrize("check", DAMAGES)
def test_a_check_finds_its_damage(check: str, tmp_path: Path) -> None:
    damage = DAMAGES[check]
    findings = [finding for finding in find(damage, damage.make(tmp_path)).findings if finding.check == check]
    assert any(
        finding.severity is damage.severity
        and re.fullmatch(damage.path, str(finding.path))
        and re.search(damage.found, finding.found)
        for finding in findings
    ), list(map(str, findings))


def test_every_check_has_a_damage() -> None:
    assert {check.name for check in CHECKS} - {"rows"} == set(DAMAGES) - {"keys-twice"}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_nothing_is_wrong_with_a_healthy_table(version: int, tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t", version=version).create()
    base = table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1), wrote=[base])
    log = table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 2, "value": "z"}])], base_instant=at(1))
    table.commit(at(2), wrote=[log])
    diagnosis = tools.doctor(table.open(), deep=True, now=NOW)
    assert diagnosis.worst is Severity.INFO, str(diagnosis)
    assert diagnosis.checks == tuple(check.name for check in CHECKS)
    (cost,) = diagnosis.slices
    assert (cost.base_bytes, cost.log_bytes, cost.log_files) == (base.stat().st_size, log.stat().st_size, 1)
    assert (cost.delta_commits, cost.is_overdue) == (1, False)


@pytest.mark.parametrize("facts", [{}, {"org.apache.spark.version": "2.4.8"}])
def test_nothing_is_wrong_with_dates_that_python_does_not_have(tmp_path: Path, facts: dict[str, str]) -> None:
    writer = TableWriter(folder=tmp_path / "t", fields=(*KEY_AND_VALUE, ("d", {"type": "int", "logicalType": "date"})))
    base = writer.create().base_file(at(1), [{"id": "a", "ts": 1, "value": "x", "d": -719_164}])
    pq.write_table(pq.read_table(base).replace_schema_metadata(facts), base)
    writer.commit(at(1), wrote=[base])
    assert examine(writer.folder, now=NOW, deep=True).worst is Severity.INFO


def test_logs_of_another_write_are_not_those_of_the_first_commit_of_their_slice(tmp_path: Path) -> None:
    # Before an upgrade, log files were named after the first one, also those of a write that was rolled back.
    writer = TableWriter(folder=tmp_path / "t").create()
    log = writer.log_file(at(1), [writer.data_block(at(1), [{"id": "a", "ts": 1, "value": "x"}])])
    writer.commit(at(1), wrote=[log])
    other = writer.log_file(at(1), [writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "y"}])], number=2)
    assert "files-no-commit-names" not in [finding.check for finding in examine(writer.folder, now=NOW).findings]
    other.write_bytes(log.read_bytes())
    findings = examine(writer.folder, now=NOW).findings
    assert ("files-no-commit-names", other.name) in [(finding.check, finding.path) for finding in findings]


@pytest.mark.parametrize("content", [b"", b"#HUDI#"])
def test_a_log_that_no_commit_names_is_found_if_its_write_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    writer = healthy(tmp_path)
    other = writer.log_file(at(2), [content], number=2)
    findings = examine(writer.folder, now=NOW).findings
    assert ("files-no-commit-names", other.name) in [(finding.check, finding.path) for finding in findings]


def test_nothing_is_wrong_with_a_partition_within_another(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, partition_fields=("value",)).create()
    rows = {path: [{"id": path, "ts": 1, "value": path}] for path in (".com", "a", "a/b")}
    files = [
        table.base_file(at(1), row, file_id=f"f{number}-0", partition=path)
        for number, (path, row) in enumerate(rows.items())
    ]
    table.commit(at(1), wrote=files)
    (tmp_path / "a/b/.hoodie_partition_metadata").write_text("commitTime=0\npartitionDepth=2\n")
    diagnosis = tools.doctor(table.open(), now=NOW)
    assert diagnosis.worst is Severity.INFO, str(diagnosis)
    assert [cost.partition_path for cost in diagnosis.slices] == [".com", "a", "a/b"]


def test_rows_that_cannot_be_read_are_found_deep_alone(tmp_path: Path) -> None:
    writer = healthy(tmp_path)
    base = only(writer.folder, "f1-0_*.parquet")
    overwrite(base, 30, b"\xff" * 40)
    assert examine(writer.folder, now=NOW).worst < Severity.WARNING
    deep = examine(writer.folder, now=NOW, deep=True)
    assert [(finding.severity, finding.check) for finding in deep.findings if finding.severity > Severity.ADVICE] == [
        (ERROR, "rows")
    ]


def test_positions_that_are_no_bitmap_or_a_very_long_one(tmp_path: Path) -> None:
    writer = healthy(tmp_path)
    rows = [{"id": "a", "ts": 3, "value": "z"}]
    endless = BitMap64()
    endless.add_range(0, 1 << 26)
    header = record_positions([0], at(1))
    nonsense = header | {HeaderKey.RECORD_POSITIONS: "bm9uc2Vuc2U="}
    many = header | {HeaderKey.RECORD_POSITIONS: base64.b64encode(endless.serialize()).decode()}
    blocks = [writer.data_block(at(3), rows, positions=positions) for positions in (nonsense, many)]
    findings = [
        finding
        for finding in examine(with_log(tmp_path, *blocks, writer=writer), now=NOW).findings
        if finding.check == "record-positions"
    ]
    assert [(finding.severity, finding.found) for finding in findings] == [
        (ERROR, "RECORD_POSITIONS that cannot be read: Could not deserialize bitmap"),
        (INFO, f"{1 << 26} positions of the 1 records of a block"),
    ]


def test_the_record_index_is_compared_with_the_rows(tmp_path: Path) -> None:
    table = golden_copy("h_record_index_120", tmp_path)
    opened = HudiTable.open(table)
    base = opened.file_slices()[0].base_file
    assert base is not None
    rows = pq.read_table(table / base.path)
    keys = rows.column("_hoodie_record_key").to_pylist()
    changed: Any = pa.array(["another", *keys[1:]])
    position = rows.schema.get_field_index("_hoodie_record_key")
    pq.write_table(rows.set_column(position, "_hoodie_record_key", changed), table / base.path)
    findings = [finding for finding in examine(table, deep=True, now=LATER).findings if finding.check == "record-index"]
    assert [item.severity for item in findings] == [ERROR]
    assert "that the record index lacks: 'another'" in findings[0].found


def test_a_key_in_two_partitions_is_found_if_the_index_is_global(tmp_path: Path) -> None:
    for name, checks in (
        # The index has one of the two rows, as it has one location for a key.
        ("h_record_index_120", {"keys-across-partitions"}),
        ("h_partitioned_record_index_120", {"record-index"}),
    ):
        (tmp_path / name).mkdir()
        table = golden_copy(name, tmp_path / name)
        one, *others = HudiTable.open(table).file_slices()
        other = next(part for part in others if part.partition_path != one.partition_path)
        assert one.base_file is not None
        assert other.base_file is not None
        (key,) = pq.ParquetFile(table / one.base_file.path).read().column("_hoodie_record_key").slice(0, 1).to_pylist()
        rows = pq.ParquetFile(table / other.base_file.path).read()
        position = rows.schema.get_field_index("_hoodie_record_key")
        keys: Any = pa.array([key, *rows.column(position).to_pylist()[1:]])
        pq.write_table(rows.set_column(position, "_hoodie_record_key", keys), table / other.base_file.path)
        findings = [finding for finding in examine(table, deep=True, now=LATER).findings if str(key) in finding.found]
        assert {finding.check for finding in findings} == checks
        across = [finding for finding in findings if finding.check == "keys-across-partitions"]
        assert all(f"1 record keys in several partitions: {key!r}" in finding.found for finding in across)


def test_a_table_that_cannot_be_opened_has_a_finding(tmp_path: Path) -> None:
    table = healthy(tmp_path).folder
    (table / ".hoodie" / "hoodie.properties").write_text("nonsense")
    (finding,) = examine(table).findings
    assert (finding.severity, finding.check, finding.path) == (ERROR, "open", ".hoodie/hoodie.properties")
    with pytest.raises(TableNotFoundError):
        examine(tmp_path / "nowhere")


def test_a_table_of_a_later_version_is_not_called_damaged(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t", options={"hoodie.table.version": "99"}).create().folder
    (finding,) = examine(table).findings
    assert (finding.severity, finding.check) == (WARNING, "open")


def test_a_damaged_timeline_does_not_stop_other_checks(tmp_path: Path) -> None:
    table = stuck_write(tmp_path)
    truncate(only(table / ".hoodie" / "timeline", f"{at(2)}_*"), 100)
    checks = {finding.check for finding in examine(table, now=LATER).findings}
    assert {"timeline-files", "pending-actions", "horizon"} <= checks


def test_names_from_outside_are_quoted(tmp_path: Path) -> None:
    table = healthy(tmp_path).folder
    (table / ".hoodie" / "timeline" / "1\x1b[31m.commit").write_bytes(b"")
    findings = [finding for finding in examine(table, now=NOW).findings if finding.check == "timeline-files"]
    assert [finding.found for finding in findings] == [r"the file name '1\x1b[31m.commit'"]


def test_a_table_in_a_store_has_the_same_findings(tmp_path: Path) -> None:
    table = torn_block(tmp_path)
    store = fsspec.filesystem("memory")
    store.put(str(table), "/doctor_of_a_store", recursive=True)
    here, there = examine(table, now=NOW), examine("memory://doctor_of_a_store", now=NOW)
    assert there.findings == here.findings
    assert (there.path, there.slices) == ("memory://doctor_of_a_store", here.slices)


def test_indexes_by_record_that_hold_what_is_rolled_back_are_not_used(tmp_path: Path) -> None:
    table = compacted_before_rollback(tmp_path)
    (finding,) = [item for item in examine(table).findings if item.check == "metadata-table"]
    assert (finding.severity, finding.path) == (WARNING, ".hoodie/metadata")
    of_keys = pc.field("_hoodie_record_key") == "k1"
    plan = HudiTable.open(table).snapshot().explain(filter=of_keys)
    assert "record index: not used, one of a later state" in str(plan)
    assert "'20261121141835799'" in finding.found


def test_a_rollback_that_hudi_refuses_is_told_as_such(tmp_path: Path) -> None:
    table = golden_copy("i_cdc_0150", tmp_path)
    timeline = table / ".hoodie"
    last = max(timeline.glob("*.deltacommit"))
    own = timeline / "metadata" / ".hoodie"
    (own / f"{last.stem}001.commit").write_bytes(b"")
    last.unlink()
    (timeline / f"{at(9)}.rollback.requested").write_bytes(b"")
    findings = [item for item in examine(table).findings if "before a rollback" in item.found]
    ((expected, remedy),) = [(item.expected or "", item.remedy or "") for item in findings]
    assert "Hudi refuses it, and with it every write" in expected
    assert "the next write finishes the rollback" in remedy
    assert "create_metadata_table" not in remedy


@pytest.mark.parametrize("state", ["committed", "failed"])
def test_types_of_a_write_that_failed_are_no_errors(tmp_path: Path, state: str) -> None:
    """Hudi has written log files, and not the commit, when it finds that it cannot read them with others."""
    fields = (("id", "string"), ("ts", "string"), ("value", "string"))
    writer = healthy(tmp_path, version=6)
    block = replace(writer, fields=fields).data_block(at(3), [{"id": "a", "ts": "x", "value": "z"}])
    log = writer.log_file(at(3), [block], base_instant=at(1), number=2)
    if state == "committed":
        writer.commit(at(3), wrote=[log])
    else:
        writer.pending(at(3))
    found = [item.found for item in examine(writer.folder, now=NOW).findings if item.check == "file-schemas"]
    assert found == (["the column 'ts' as string, which cannot be read as int64"] if state == "committed" else [])


def test_nothing_is_changed(tmp_path: Path) -> None:
    table = damaged_index(tmp_path)

    def state() -> Iterator[tuple[str, bytes]]:
        return ((str(path), path.read_bytes()) for path in sorted(table.rglob("*")) if path.is_file())

    before = list(state())
    examine(table, deep=True)
    assert list(state()) == before


def test_progress_is_told(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    examine(healthy(tmp_path).folder, progress=lambda *what: steps.append(what))
    assert ("footers", 1, 1) in steps
    assert ("log-blocks", 0, 0) in steps


def test_progress_of_a_deep_examination_has_slices_and_bytes() -> None:
    steps: list[tuple[str, int, int]] = []
    path = golden_table("a_story_v9_120")
    examine(path, deep=True, progress=lambda *what: steps.append(what))
    splits = list(HudiTable.open(path).snapshot().splits())
    size = size_text(sum(split.slices[0].base_size_bytes + split.slices[0].log_size_bytes for split in splits))
    rows = [(what, done, total) for what, done, total in steps if what.startswith("rows of file slices")]
    assert [(done, total) for _, done, total in rows] == [(number, len(splits)) for number in range(len(splits))]
    assert rows[0][0] == f"rows of file slices, 0 B of {size}:"


def test_a_diagnosis_as_table_and_text(tmp_path: Path) -> None:
    diagnosis = examine(torn_block(tmp_path), now=NOW)
    rows = diagnosis.to_table()
    assert rows.num_rows == len(diagnosis.findings) == len(str(diagnosis).splitlines())
    document = json.loads(diagnosis.to_json())
    assert (document["worst"], document["findings"][0]["check"]) == ("error", rows.column("check")[0].as_py())
    assert str(diagnosis.findings[0]).startswith("error log-blocks: .f1-0_")


@pytest.mark.parametrize(
    ("name", "check", "found", "files"),
    [
        ("f_long_strings_120", "column-stats", "in column_stats only nulls of 's'", 2),
        ("f_long_texts_row_groups_120", "column-stats", "in column_stats values from 'b100' to 'b149' of 's'", 1),
        ("f_long_texts_row_groups_120", "partition-stats", "in partition_stats values from 'b100' to 'b149' of 's'", 1),
        ("f_long_texts_partitions_120", "partition-stats", "in partition_stats values from 'a3' to 'a3' of 's'", 1),
    ],
)
def test_values_that_hudi_counts_as_nulls_are_told(name: str, check: str, found: str, files: int) -> None:
    findings = examine(golden_table(name), deep=True).findings
    actual = [finding for finding in findings if (finding.check, finding.found) == (check, found)]
    assert [finding.severity for finding in actual] == [Severity.WARNING] * files
    assert not [finding for finding in findings if finding.check == check and finding.severity > Severity.WARNING]
    assert not [finding for finding in findings if finding.check == check and "'allnull'" in finding.found]


def test_files_of_a_write_that_failed_are_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = golden_copy("h_record_index_120", tmp_path)
    last = HudiTable.open(table).timeline.commits()[-1].requested_time
    # As if a compaction of the metadata table had merged what the write had put into it.
    monkeypatch.setattr(Validity, "counts", lambda *_: True)
    (completed,) = (table / ".hoodie/timeline").glob(f"{last}_*commit")
    gone = [path for path in table.rglob(f"*_{last}*") if ".hoodie" not in path.relative_to(table).parts]
    for path in gone:
        path.unlink()
    named = [finding for finding in examine(table, now=LATER).findings if finding.check == "metadata-files"]
    assert named
    completed.unlink()
    assert [finding for finding in examine(table, now=LATER).findings if finding.check == "metadata-files"] == []


def without_change_data(folder: Path, name: str) -> tuple[Path, str, str]:
    """A table whose metadata table has a file of change data that is gone, its path, and its commit."""
    table = golden_copy(name, folder)
    gone = max(table.rglob("*.cdc"), key=lambda path: path.name.split("_")[1])
    gone.unlink()
    return table, gone.relative_to(table).as_posix(), gone.name.split("_")[1].partition(".")[0]


def of_metadata_files(table: Path) -> list[tuple[Severity, str | None, str | None]]:
    findings = examine(table, now=LATER).findings
    return [(item.severity, item.path, item.expected) for item in findings if item.check == "metadata-files"]


@pytest.mark.parametrize(
    ("name", "severity", "expected"),
    [
        ("i_cdc_0150", ERROR, "a file of the commit {}; without, queries"),
        ("i_cdc_120", WARNING, "a file of the compaction {}; without, Flink's queries"),
        ("i_cdc_cow_120", ERROR, "a file of the commit {}; without, queries"),
    ],
)
def test_change_data_that_a_commit_names_are_missed_by_queries_of_changes_alone(
    name: str, severity: Severity, expected: str, tmp_path: Path
) -> None:
    table, path, commit = without_change_data(tmp_path, name)
    ends = " of its changes may fail, and no other reads do"
    assert of_metadata_files(table) == [(severity, path, expected.format(commit) + ends)]
    HudiTable.open(table).snapshot().to_table()
    if severity is ERROR:
        with pytest.raises(InstantNotReadableError):
            HudiTable.open(table).changes("0").to_table()
    else:
        HudiTable.open(table).changes("0", format="cdc").to_table()


@pytest.mark.parametrize("name", ["i_cdc_0150", "i_cdc_cow_120"])
def test_a_lost_file_of_an_earlier_slice_is_missed_by_earlier_reads_alone(name: str, tmp_path: Path) -> None:
    table = golden_copy(name, tmp_path)
    first = HudiTable.open(table).timeline.commits()[0].requested_time
    newest = {item.base_file.path for item in HudiTable.open(table).file_slices() if item.base_file is not None}
    bases = (path.relative_to(table).as_posix() for path in table.rglob(f"*_{first}.parquet"))
    gone = next(path for path in sorted(bases) if path not in newest)
    rows = HudiTable.open(table).snapshot().count_rows()
    (table / gone).unlink()
    assert of_metadata_files(table) == [
        (WARNING, gone, "a file; reads as of earlier instants that need it fail, those of the newest do not")
    ]
    assert HudiTable.open(table).snapshot().count_rows() == rows
    with pytest.raises(HudiReadError):
        HudiTable.open(table).snapshot(first).to_table()
    # A clean deletes files before the metadata table has it.
    partition, _, file = gone.rpartition("/")
    timeline = table / ".hoodie" / ("timeline" if name.endswith("120") else "")
    (timeline / f"{at(9)}.clean.requested").write_bytes(clean_plan(None, file, partition=partition))
    assert of_metadata_files(table) == []


@pytest.mark.parametrize("name", ["i_cdc_0150", "i_cdc_120", "i_cdc_cow_120"])
def test_change_data_of_a_write_that_failed_are_not_missed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _, commit = without_change_data(tmp_path, name)
    # As if a compaction of the metadata table had merged what the write had put into it.
    monkeypatch.setattr(Validity, "counts", lambda *_: True)
    assert of_metadata_files(table)
    for completed in (table / ".hoodie").rglob(f"{commit}*commit"):
        if "metadata" not in completed.parts:
            completed.unlink()
    gone = [path for path in table.rglob(f"*_{commit}*") if ".hoodie" not in path.relative_to(table).parts]
    for path in gone:
        path.unlink()
    assert of_metadata_files(table) == []


@pytest.mark.parametrize(("is_archived", "severities"), [(True, [WARNING]), (False, [])])
def test_change_data_from_before_the_timeline_are_missed_if_the_archive_has_their_commit(
    is_archived: bool, severities: list[Severity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = golden_copy("i_cdc_0150", tmp_path)
    gone = min(table.rglob("*.cdc"), key=lambda path: path.name.split("_")[1])
    gone.unlink()
    commit = gone.name.split("_")[1].partition(".")[0]
    for path in (table / ".hoodie").glob("20*"):
        if path.name.partition(".")[0] <= commit:
            path.unlink()
    monkeypatch.setattr(Examined, "archived_commits", frozenset({commit} if is_archived else ()))
    of_gone = [item for item in of_metadata_files(table) if item[1] == gone.relative_to(table).as_posix()]
    assert [severity for severity, _, _ in of_gone] == severities


@pytest.mark.parametrize("case", ["h_all_indexes_120", "d_compacted_then_logs_0150", "i_cow_120"])
def test_a_write_whose_completion_is_lost_is_not_to_be_rolled_back(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = golden_copy(case, tmp_path)
    lost = lose_completion(table, 0)
    findings = examine(table, now=LATER).findings
    gaps = [finding for finding in findings if finding.check == "timeline-gaps"]
    assert [(finding.severity, finding.found.partition(",")[0]) for finding in gaps] == [
        (ERROR, f"a {lost.action} that has not completed")
    ]
    assert "pending-actions" not in {finding.check for finding in findings}
    HudiTable.open(table).snapshot().to_table()
    # The base files of later commits have all rows of a copy-on-write table.
    warnings = [message for message in caplog.messages if f"{lost.requested_time} has not completed" in message]
    assert len(warnings) == (case != "i_cow_120")


@pytest.mark.parametrize("case", ["h_all_indexes_120", "d_compacted_then_logs_0150", "i_cow_120"])
def test_a_pending_write_that_no_other_is_based_on_may_be_running(case: str, tmp_path: Path) -> None:
    table = golden_copy(case, tmp_path)
    lose_completion(table, -1)
    checks = {finding.check for finding in examine(table, now=LATER).findings}
    assert "pending-actions" in checks
    assert "timeline-gaps" not in checks


@pytest.mark.parametrize(
    ("case", "archive"), [("d_archived_120", ".hoodie/timeline/history"), ("d_archived_0150", ".hoodie/archived")]
)
def test_an_archive_that_is_gone_is_told(case: str, archive: str, tmp_path: Path) -> None:
    table = golden_copy(case, tmp_path)
    shutil.rmtree(table / archive)
    (gap,) = (finding for finding in examine(table, now=LATER).findings if finding.check == "timeline-gaps")
    assert (gap.severity, gap.path) == (INFO, archive)
    assert gap.found.startswith("no archived instants, although data files or commits name ")
    start = HudiTable.open(table).timeline.start
    assert gap.remedy == f"only ranges that begin before {start} need them, and are refused"
    with pytest.raises(InstantNotReadableError, match="neither on the active nor on the archived timeline"):
        HudiTable.open(table).incremental("earliest")


def lose_completion(table: Path, number: int) -> Instant:
    opened = HudiTable.open(table)
    commit = opened.timeline.commits()[number]
    (table / opened.config.timeline_path / instant_file_name(commit)).unlink()
    assert HudiTable.open(table).timeline.pending_times() == {commit.requested_time}
    return commit
