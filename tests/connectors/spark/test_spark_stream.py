"""A table as a source of Structured Streaming, with commits written between batches."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hudi_bridge import QueryError
from hudi_bridge.connectors.spark import cause_of
from tests.support.table_writer import TableWriter, at

Batches = list[list[tuple[str, str]]]


class Sink:
    """Remembers the rows of each batch."""

    def __init__(self) -> None:
        self.batches: Batches = []

    def __call__(self, rows: DataFrame, _: int) -> None:
        self.batches.append(sorted((row.id, row.value) for row in rows.select("id", "value").collect()))


@pytest.fixture(params=[6, 9], ids=["completion times unknown", "completion times known"])
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> TableWriter:
    return TableWriter(folder=tmp_path / "table", version=request.param).create()


def write(writer: TableWriter, number: int, *rows: tuple[str, str]) -> None:
    """A commit: the first one as a base file, others as log blocks."""
    records = [{"id": name, "ts": number, "value": value} for name, value in rows]
    if number == 1:
        path = writer.base_file(at(1), records)
    else:
        path = writer.log_file(at(number), [writer.data_block(at(number), records)], base_instant=at(1), number=number)
    writer.commit(at(number), wrote=[path])


def run(spark: SparkSession, writer: TableWriter, checkpoint: Path, **options: str) -> Batches:
    """The batches of a stream that ends once it has delivered what is there."""
    sink = Sink()
    frame = spark.readStream.format("hudi_bridge").options(**options).load(str(writer.folder))
    query = (
        frame.writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )
    query.awaitTermination()
    return sink.batches


def test_each_commit_arrives_once_across_restarts(spark: SparkSession, writer: TableWriter, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    write(writer, 1, ("a", "1"), ("b", "1"))
    assert run(spark, writer, checkpoint) == [[("a", "1"), ("b", "1")]]
    assert run(spark, writer, checkpoint) == []
    write(writer, 2, ("b", "2"))
    write(writer, 3, ("c", "3"))
    assert run(spark, writer, checkpoint) == [[("b", "2"), ("c", "3")]]
    assert run(spark, writer, checkpoint) == []


def test_a_batch_holds_no_more_commits_than_it_may(spark: SparkSession, writer: TableWriter, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write(writer, number, ("a", str(number)), (f"b{number}", str(number)))
    actual = run(spark, writer, tmp_path / "checkpoint", maxInstantsPerTrigger="1")
    assert actual == [[("a", str(number)), (f"b{number}", str(number))] for number in (1, 2, 3)]


def test_where_a_stream_starts(spark: SparkSession, writer: TableWriter, tmp_path: Path) -> None:
    name = "hoodie.datasource.streaming.startOffset"
    write(writer, 1, ("a", "1"))
    assert not any(run(spark, writer, tmp_path / "latest", **{name: "latest"}))
    write(writer, 2, ("b", "2"))
    assert run(spark, writer, tmp_path / "latest", **{name: "latest"}) == [[("b", "2")]]
    start = at(1) if writer.version < 8 else str(int(at(1)) + 50)
    assert run(spark, writer, tmp_path / "given", **{name: start}) == [[("b", "2")]]


def test_a_bad_start_is_refused(spark: SparkSession, writer: TableWriter, tmp_path: Path) -> None:
    write(writer, 1, ("a", "1"))
    with pytest.raises(PySparkException) as caught:
        run(spark, writer, tmp_path / "checkpoint", **{"hoodie.datasource.streaming.startOffset": "soon"})
    assert isinstance(cause_of(caught.value), QueryError)


def test_a_column_of_another_type_is_refused(spark: SparkSession, writer: TableWriter, tmp_path: Path) -> None:
    write(writer, 1, ("a", "1"))
    frame = spark.readStream.format("hudi_bridge").schema("id int").load(str(writer.folder))
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination()
    assert "type of column id: found int, expected string" in str(cause_of(caught.value))
