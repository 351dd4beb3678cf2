"""Tables on a real HDFS with two NameNodes, which are stopped, started and denied meanwhile."""

import errno
import json
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import duckdb
import polars as pl
import pytest

from hudi_bridge import HudiTable, RealtimeFileSplit, StorageError, open_reader
from hudi_bridge.cli.main import run
from hudi_bridge.connectors.duckdb import attach_all
from hudi_bridge.connectors.polars import scan
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.inspection import VIEWS, inspect_log_blocks
from hudi_bridge.storage.storage import Storage
from tests.connectors.spark.answers_beside_writer import (
    Answer,
    answer_of_table,
    answers_at_instants,
    ask_while,
    running_writer,
    write_and_note,
    write_round,
)
from tests.connectors.spark.processes import output_of
from tests.integration.hdfs_cluster import HdfsCluster, properties_of, write_settings
from tests.support.compare import differences
from tests.support.deviations import ANSWERED, NOT_A_NUMBER
from tests.support.golden_cases import golden_group, golden_table, golden_trips
from tests.support.golden_queries import QUERIES, answer_of, chosen_cases, dataset_of, query_id, rows_through_arrow

pytestmark = pytest.mark.jvm
GROUPS, CASES_PER_GROUP = ("a", "b", "h"), 2
KEYS = sorted(key for key in ANSWERED - NOT_A_NUMBER if golden_group(key[0]) in GROUPS)
CHOSEN = chosen_cases({case for case, _ in KEYS}, CASES_PER_GROUP)
ROUNDS = 3
SPARK_JOB = str(Path(__file__).parent / "hdfs_spark_job.py")


@pytest.fixture(autouse=True)
def variables(hdfs: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.settings))


@pytest.fixture(scope="module")
def uploaded(hdfs: HdfsCluster) -> dict[str, str]:
    """The URIs of the golden tables that were uploaded."""
    return {case: hdfs.put(golden_table(case), f"/golden/{case}") for case in sorted(CHOSEN)}


@pytest.fixture(scope="module")
def trips(hdfs: HdfsCluster) -> str:
    return hdfs.put(golden_trips() / "trips", "/lake/trips")


@pytest.mark.parametrize("key", [key for key in KEYS if key[0] in CHOSEN], ids=query_id)
def test_golden_tables(uploaded: dict[str, str], key: tuple[str, int]) -> None:
    query = QUERIES[key]
    rows = rows_through_arrow(dataset_of(query, HudiTable.open(uploaded[query.case])), query)
    assert differences(answer_of(query), rows) == []


def test_names_with_signs_of_uris(hdfs: HdfsCluster) -> None:
    name = "a b;c#d?e%20é"
    hdfs.put(golden_trips() / "trips", f"/odd/{name}")
    lake = Storage.open(f"{hdfs.uri}/odd")
    assert [info.path for info in lake.list_directory("")] == [name]
    table = HudiTable.open(lake.child(name).table_path)
    (split, *_) = table.splits()
    assert table.snapshot().count_rows() == HudiTable.open(golden_trips() / "trips").snapshot().count_rows()
    assert open_reader(RealtimeFileSplit.from_json(split.to_json())).to_table().num_rows


def test_files_of_several_blocks(hdfs: HdfsCluster) -> None:
    content = random.Random(1).randbytes(5_000_000)
    hdfs.write("/large/file", content)
    storage = Storage.open(f"{hdfs.uri}/large")
    assert storage.read_bytes("file") == content
    with storage.open_ranges("file", len(content)) as file:
        for start, size in ((0, 1), (1_048_575, 2), (1_048_576, 1_048_576), (2_000_000, 3_000_000)):
            assert file.read_range(start, size).to_pybytes() == content[start : start + size]


def test_engines(hdfs: HdfsCluster, trips: str, capfd: pytest.CaptureFixture[str]) -> None:
    rows = HudiTable.open(golden_trips() / "trips").snapshot().count_rows()
    with duckdb.connect() as connection:
        lake = attach_all(connection, f"{hdfs.uri}/lake")
        counted = lake.sql("SELECT count(*) FROM lake.trips")
        assert counted is not None
        assert counted.fetchall() == [(rows,)]
    assert scan(trips).select(pl.len()).collect().item() == rows
    assert run(("sql", trips, "SELECT count(*) AS n FROM trips", "--format", "json")) == 0
    assert json.loads(capfd.readouterr().out) == {"n": rows}


def test_what_is_in_a_table(uploaded: dict[str, str]) -> None:
    case, uri = next(iter(uploaded.items()))
    local, table = HudiTable.open(golden_table(case)), HudiTable.open(uri)
    for suffix, view in VIEWS.items():
        expected, shown = (view.rows(opened, None) for opened in (local, table))
        assert shown.schema == expected.schema
        assert shown.num_rows == expected.num_rows, suffix
    blocks = inspect_log_blocks(table)
    assert blocks.equals(inspect_log_blocks(local))
    assert blocks.num_rows


@pytest.mark.parametrize("locality_wait", ["3s", "0"])
def test_spark(trips: str, locality_wait: str) -> None:
    """Beside the hosts of HDFS, Spark in local mode would wait for tasks without end."""
    rows = HudiTable.open(trips).snapshot().count_rows()
    counts = json.loads(output_of(SPARK_JOB, trips, locality_wait).splitlines()[-1])
    assert counts == {"format": rows, "read": rows, "is native": locality_wait == "0"}


def test_files_of_connectors(hdfs: HdfsCluster) -> None:
    scratch = Scratch.open(f"{hdfs.uri}/published")
    for content in (b"first", b"second"):
        scratch.write("v1/file", content)
        assert scratch.read("v1/file") == content
    assert scratch.names("v1") == ("file",)
    scratch.remove("v1/file")
    scratch.remove("v1/file")
    assert scratch.names("v1") == ()


def test_links_of_viewfs(hdfs: HdfsCluster, trips: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = {"fs.viewfs.mounttable.View.link./data": f"{hdfs.uri}/lake"}
    write_settings(tmp_path / "conf", hdfs.options | link)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    rows = HudiTable.open(trips).snapshot().count_rows()
    assert HudiTable.open("viewfs://View/data/trips").snapshot().count_rows() == rows


def test_every_answer_beside_a_writer_is_that_of_an_instant(hdfs: HdfsCluster) -> None:
    # Spark 3.5 brings a client of Hadoop 3.3, which is told of one NameNode.
    table = f"hdfs://127.0.0.1:{hdfs.ports[0]}/written/trips"
    with running_writer(table, ROUNDS) as writer:
        write_round(writer)
        expected = answers_at_instants(table)
        rounds = Thread(target=write_and_note, args=(writer, table, expected, ROUNDS - 1))
        answers: list[Answer] = []
        ask_while(rounds, lambda: answers.append(answer_of_table(HudiTable.open(f"{hdfs.uri}/written/trips"))))
    assert set(answers) <= set(expected.values())
    assert answers[-1] == expected[max(expected)]
    assert len(set(answers)) > 1


def test_a_log_file_to_which_a_writer_appends(hdfs: HdfsCluster, trips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(trips)
    rows = table.snapshot().to_table()
    (log, *_) = (path for split in table.splits() for path, _ in split.log_files)
    writer = hdfs.client.append(f"/lake/trips/{log}")
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "1")
    with pytest.raises(StorageError, match=r"a writer has it open: 0 of its \d+ bytes can be read") as caught:
        table.snapshot().to_table()
    assert caught.value.path == f"{trips}/{log}"
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "60")
    closing = Timer(1, writer.close)
    closing.start()
    assert differences(rows, table.snapshot().to_table()) == []
    closing.join()


def test_a_denied_partition_is_an_error(hdfs: HdfsCluster, trips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = HudiTable.open(trips).snapshot().count_rows()
    hdfs.client.set_permission("/lake/trips/sf", 0o700)
    try:
        monkeypatch.setenv("HADOOP_USER_NAME", "alice")
        with pytest.raises(
            StorageError, match=r"Permission denied: user=alice, access=EXECUTE.*:drwx------$"
        ) as caught:
            HudiTable.open(trips).snapshot().to_table()
        assert caught.value.errno == errno.EACCES
        assert caught.value.path.startswith(f"{trips}/sf")
        monkeypatch.delenv("HADOOP_USER_NAME")
        assert HudiTable.open(trips).snapshot().count_rows() == rows
    finally:
        hdfs.client.set_permission("/lake/trips/sf", 0o755)


def read_splits(splits: Any) -> int:
    return sum(open_reader(split).to_table().num_rows for split in splits)


def test_a_name_node_that_is_restarted_in_the_middle_of_a_read(
    hdfs: HdfsCluster, trips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "60")
    table = HudiTable.open(trips)
    first, *others = table.splits()
    rows = read_splits([first])
    hdfs.command("stop-name-node 0")

    def start() -> None:
        time.sleep(1)
        hdfs.command("start-name-node 0")
        hdfs.command("activate 0")

    starting = Thread(target=start)
    starting.start()
    rows += read_splits(others)
    starting.join()
    assert rows == table.snapshot().count_rows() == HudiTable.open(golden_trips() / "trips").snapshot().count_rows()


def test_a_second_name_node_takes_over(hdfs: HdfsCluster, trips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(trips)
    first, *others = table.splits()
    rows = read_splits([first])
    hdfs.command("deactivate 0")
    try:
        monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "1")
        with pytest.raises(StorageError, match="is not supported in state standby"):
            read_splits(others)
        monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "60")
        Timer(1, hdfs.command, ["activate 1"]).start()
        assert rows + read_splits(others) == table.snapshot().count_rows()
        hdfs.command("stop-name-node 0")
        assert HudiTable.open(trips).snapshot().count_rows() == table.snapshot().count_rows()
        # One that begins now finds that the first one is gone.
        counting = f"from hudi_bridge import HudiTable; print(HudiTable.open({trips!r}).snapshot().count_rows())"
        done = subprocess.run((sys.executable, "-c", counting), capture_output=True, text=True, check=True, timeout=120)
        assert int(done.stdout) == table.snapshot().count_rows()
        hdfs.command("start-name-node 0")
    finally:
        hdfs.command("deactivate 1")
        hdfs.command("activate 0")


def test_a_data_node_that_is_gone(hdfs: HdfsCluster, trips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(trips)
    rows = table.snapshot().count_rows()
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "1")
    hdfs.command("stop-data-node")
    try:
        with pytest.raises(StorageError, match=r"no DataNode gives a block: 127\.0\.0\.1:\d+$") as caught:
            HudiTable.open(trips).snapshot().to_table()
        assert caught.value.path.startswith(f"{trips}/")
    finally:
        hdfs.command("start-data-node")
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "60")
    assert table.snapshot().count_rows() == rows


def test_a_name_node_that_does_not_answer(hdfs: HdfsCluster, trips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = HudiTable.open(trips).snapshot().count_rows()
    monkeypatch.setenv("HUDI_BRIDGE_STORE_TIMEOUT", "3")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(StorageError, match="no answer within 3 seconds"):
            HudiTable.open(f"hdfs://127.0.0.1:{port}/lake/trips")
        options = properties_of((port, hdfs.ports[0]))
        with pytest.raises(StorageError, match="no answer within 3 seconds"):
            HudiTable.open(trips, storage_options=options)
        # The other one is asked from now on.
        assert HudiTable.open(trips, storage_options=options).snapshot().count_rows() == rows


def test_a_forked_process(trips: str) -> None:
    program = f"""
import multiprocessing
from hudi_bridge import HudiTable
table = HudiTable.open({trips!r})
rows = table.snapshot().count_rows()
def count(_):
    return table.snapshot().count_rows()
with multiprocessing.get_context("fork").Pool(1) as pool:
    assert pool.map(count, [0]) == [rows], rows
print(rows)
"""
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
