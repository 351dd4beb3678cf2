"""What is logged, and which spans there are, when tables are read."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hudi_bridge import HudiTable
from hudi_bridge.cli.iceberg import JsonLines
from hudi_bridge.common.display import size_text
from hudi_bridge.common.operations import operation, watched_work, watching_work
from hudi_bridge.splits.split import sizes_of
from tests.support.golden_cases import golden_table
from tests.support.s3_server import S3Server
from tests.support.table_writer import TableWriter, at

LOG = logging.getLogger("hudi_bridge.test")
SECRET = "s3cr3t-of-the-test"


def write(folder: Path) -> None:
    writer = TableWriter(folder=folder).create()
    for number in range(2):
        writer.base_file(at(1), [{"id": f"k{number}", "ts": number, "value": "x"}], file_id=f"f{number}-0")
    writer.commit(at(1))


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """A program has one provider of spans."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    exporter.clear()
    yield exporter
    exporter.clear()


def test_the_plan_of_a_scan_is_logged_with_its_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "t")
    dataset = HudiTable.open(tmp_path / "t").snapshot()
    with caplog.at_level(logging.INFO, "hudi_bridge"):
        dataset.to_table()
    (record,) = caplog.records
    assert record.name == "hudi_bridge.dataset"
    expected = rf"plan: table {tmp_path}/t, query snapshot, instant {at(1)}, slices 2, base bytes [\d,]+, log bytes 0; "
    assert re.fullmatch(expected + r"\d+\.\d+ s", record.getMessage())


def test_pruning_and_requests_are_told_in_detail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "bucket" / "t")
    with S3Server(tmp_path).running() as server, caplog.at_level(logging.DEBUG, "hudi_bridge"):
        dataset = HudiTable.open(server.uri("bucket/t").replace("secret", SECRET)).snapshot()
        dataset.to_table(filter=pc.field("ts") > 0)
        dataset.to_table(filter=pc.field("ts") > 0)
    text = caplog.text
    assert SECRET not in text
    for part in ("list .hoodie", "read f0-0", "ranges of files read before", "read: table s3://***@bucket/t", "rows 1"):
        assert part in text, part


def test_spans_of_a_scan_are_part_of_the_callers(
    tmp_path: Path, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Slices as small as these are read by the caller's thread otherwise.
    monkeypatch.setattr("hudi_bridge.split_reader._FEW_SMALL_BYTES", 0)
    write(tmp_path / "t")
    with trace.get_tracer("program").start_as_current_span("job") as job:
        HudiTable.open(tmp_path / "t").snapshot().to_table()
    actual: dict[str, list[ReadableSpan]] = {}
    for span in spans.get_finished_spans():
        actual.setdefault(span.name, []).append(span)
    assert {name: len(some) for name, some in actual.items()} == {
        "job": 1,
        "hudi_bridge.open": 1,
        "hudi_bridge.plan": 1,
        "hudi_bridge.read": 2,
    }
    for name, some in actual.items():
        for span in some if name != "job" else ():
            assert span.parent is not None
            assert span.parent.span_id == job.get_span_context().span_id
            assert dict(span.attributes or {})["hudi_bridge.table"] == f"{tmp_path}/t"
    (plan,) = actual["hudi_bridge.plan"]
    assert dict(plan.attributes or {})["hudi_bridge.slices"] == 2
    assert [dict(span.attributes or {})["hudi_bridge.rows"] for span in actual["hudi_bridge.read"]] == [1, 1]


def test_failures_are_told_without_their_texts(spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG.name)
    with pytest.raises(ValueError, match=SECRET), operation(LOG, "try", number=1):
        raise ValueError(SECRET)
    (line,) = caplog.messages
    assert re.fullmatch(r"try: number 1; \d+\.\d+ s; failed with ValueError", line)
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert SECRET not in span.to_json()


def test_a_consumer_that_stops_is_no_failure(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    write(tmp_path / "t")
    HudiTable.open(tmp_path / "t").snapshot().head(1)
    assert {span.status.status_code for span in spans.get_finished_spans()} == {trace.StatusCode.UNSET}


def test_lines_of_json() -> None:
    record = LOG.makeRecord(LOG.name, logging.WARNING, __file__, 1, 'a "%s"\nof two lines', ("text",), None)
    line = JsonLines().format(record)
    assert "\n" not in line
    actual = json.loads(line)
    assert actual.pop("time").endswith("+00:00")
    assert actual == {
        "level": "WARNING",
        "logger": LOG.name,
        "thread": "MainThread",
        "message": 'a "text"\nof two lines',
    }


def test_work_that_is_watched_is_counted() -> None:
    reports: list[str] = []
    table = HudiTable.open(golden_table("a_story_v9_120"))
    splits = [split for whole in table.snapshot().splits() for split in whole.slices]
    size = size_text(sum(sizes_of(splits)))
    with watching_work(lambda work: reports.append(str(work))):
        table.snapshot().to_table()
        # Slices are read one by one where there is a filter.
        table.snapshot().to_table(filter=pc.field("id") != "")
    whole = f"{len(splits)} of {len(splits)} file slices, {size} of {size}"
    begin = f"0 of {len(splits)} file slices, 0 B of {size}"
    assert (reports.count(begin), reports.count(whole)) == (2, 2)
    assert reports[0] == begin
    assert reports[-1] == whole
    table.snapshot().to_table()
    assert reports[-1] == whole
    assert watched_work() is None
