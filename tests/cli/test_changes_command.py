import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from hudi_bridge import HudiTable
from tests.cli.conftest import COMMAND, ROOT, Outcome
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, completion_of
from tests.support.waiting import wait_for

Call = Callable[..., Outcome]
TIMEOUT_SECONDS = 60


@pytest.fixture
def writer(tmp_path: Path) -> TableWriter:
    table = TableWriter(folder=tmp_path / "t").create()
    write(table, 1)
    return table


def write(table: TableWriter, number: int) -> None:
    """A commit that inserts one record."""
    rows = [{"id": f"k{number}", "ts": 1, "value": f"v{number}"}]
    path = table.base_file(at(number), rows, file_id=f"f{number}-0")
    table.commit(at(number), action="commit", wrote=[path])


def keys(output: str | bytes) -> list[str]:
    """The record keys of inserts, as JSON lines."""
    return [json.loads(line)["after"]["id"] for line in output.splitlines()]


@contextmanager
def following(*arguments: object) -> Iterator["subprocess.Popen[bytes]"]:
    command = [*COMMAND, "changes", *map(str, arguments), "--follow", "--interval", "0.05"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_state(state: Path, commit: int) -> None:
    wait_for(lambda: after_of(state) == completion_of(at(commit)))


def stop(process: "subprocess.Popen[bytes]", number: int = signal.SIGINT) -> bytes:
    """What the command still writes after a signal to end; it ends well."""
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, err) == (0, b"")
    return out


def after_of(state: Path) -> str | None:
    return json.loads(state.read_text())["after"] if state.exists() else None


def test_changes_in_every_format(hudi_bridge: Call, tmp_path: Path) -> None:
    table = str(golden_table("i_cdc_120"))
    expected = HudiTable.open(table).changes("earliest").to_table()
    begin = ("changes", table, "--after", "earliest")
    lines = hudi_bridge(*begin, "-f", "json")
    assert len(lines.text.splitlines()) == expected.num_rows == 44
    assert "begins with --after 20261121142444694" in lines.err
    assert differences(expected, pa.ipc.open_stream(hudi_bridge(*begin, "-f", "arrow").out).read_all()) == []
    for name in ("rows.parquet", "rows.csv"):
        assert hudi_bridge(*begin, "-o", str(tmp_path / name)).code == 0
    assert differences(expected, pq.read_table(tmp_path / "rows.parquet")) == []
    rows = csv.read_csv(tmp_path / "rows.csv").to_pylist()
    assert sorted(row["op"] for row in rows) == sorted(map(str, expected["op"].to_pylist()))
    assert {name for row in rows if row["after"] for name in json.loads(row["after"])} == set(
        HudiTable.open(table).schema.names
    )


@pytest.mark.parametrize("form", ["json", "csv", "table"])
@pytest.mark.parametrize("limit", one_in(3, [0, 3, 44, 100]))
def test_not_more_changes_than_the_limit(hudi_bridge: Call, form: str, limit: int) -> None:
    table = str(golden_table("i_cdc_120"))
    outcome = hudi_bridge("changes", table, "--after", "earliest", "--limit", str(limit), "-f", form)
    begins = ('{"op"', '"i"', '"u"', '"d"', "│ i ", "│ u ", "│ d ")
    assert sum(line.startswith(begins) for line in outcome.text.splitlines()) == min(limit, 44)
    # Whoever reads on from the end of the range would miss what the limit has left out.
    assert ("begins with --after" in outcome.err) == (limit > 44)
    assert ("may be left out" in outcome.err) == (limit <= 44)


@pytest.mark.long
def test_images_on_a_narrow_terminal_begin_with_the_record_key(in_terminal: Callable[..., str]) -> None:
    seen = in_terminal("changes", str(golden_table("i_cdc_120")), "--after", "earliest", columns=80)
    assert '{"id": "' in seen
    assert '{"_hoodie' not in seen


@pytest.mark.long
def test_following_keeps_a_file_that_it_has_not_written(hudi_bridge: Call, writer: TableWriter, tmp_path: Path) -> None:
    output, state = tmp_path / "rows.json", tmp_path / "state.json"
    arguments = (writer.folder, "--after", "earliest", "--state-file", state, "-o", output, "--no-clobber")
    for commit in (1, 2):
        if commit > 1:
            write(writer, commit)
        with following(*arguments) as process:
            wait_for_state(state, commit)
            assert stop(process) == b""
    assert keys(output.read_text()) == ["k1", "k2"]
    state.unlink()
    outcome = hudi_bridge("changes", *map(str, arguments), "--follow")
    assert (outcome.code, "--no-clobber keeps it" in outcome.err) == (1, True)
    assert keys(output.read_text()) == ["k1", "k2"]


def test_a_state_that_cannot_be_written_is_named_as_the_user_named_it(hudi_bridge: Call, writer: TableWriter) -> None:
    outcome = hudi_bridge("changes", str(writer.folder), "--after", "000", "--state-file", "/nowhere/state")
    assert (outcome.code, outcome.err) == (
        1,
        "hudi-bridge: /nowhere/state cannot be written: No such file or directory\n",
    )


def test_images_as_hudi_writes_them(hudi_bridge: Call) -> None:
    table = str(golden_table("i_cdc_120"))
    lines = hudi_bridge("changes", table, "--after", "earliest", "--cdc", "-f", "json").text.splitlines()
    expected = HudiTable.open(table).changes("earliest", format="cdc").to_table().to_pylist()
    assert sorted(lines) == sorted(json.dumps(row, ensure_ascii=False) for row in expected)


def test_a_range_ends_where_it_is_told_to(hudi_bridge: Call, writer: TableWriter) -> None:
    write(writer, 2)
    arguments = ("changes", str(writer.folder), "--after", "000", "--up-to", completion_of(at(1)), "-f", "json")
    assert keys(hudi_bridge(*arguments).text) == ["k1"]


def test_a_state_file_carries_on(hudi_bridge: Call, writer: TableWriter, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    arguments = ("changes", str(writer.folder), "--after", "earliest", "--state-file", str(state), "-f", "json")
    assert keys(hudi_bridge(*arguments).text) == ["k1"]
    assert hudi_bridge(*arguments).text == ""
    write(writer, 2)
    assert keys(hudi_bridge(*arguments).text) == ["k2"]
    assert after_of(state) == completion_of(at(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.json", "t"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "no state"),
        ("[1]", "no state"),
        ("{}", "no state"),
        ('{"table": "T", "after": 3, "written_bytes": null}', "no state"),
        ('{"table": "T", "after": "000", "written_bytes": -1}', "no state"),
        ('{"table": "/elsewhere", "after": "000", "written_bytes": null}', "the state of /elsewhere"),
    ],
)
def test_a_state_that_is_none_or_of_another_table_is_refused(
    hudi_bridge: Call, writer: TableWriter, tmp_path: Path, text: str, expected: str
) -> None:
    state = tmp_path / "state.json"
    state.write_text(text.replace("T", str(writer.folder)))
    outcome = hudi_bridge("changes", str(writer.folder), "--after", "000", "--state-file", str(state))
    assert (outcome.code, outcome.text) == (2, "")
    assert expected in outcome.err
    assert state.read_text() == text.replace("T", str(writer.folder))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "--after"),
        (["--after", "000", "--follow", "--up-to", "2026-01-01"], "--up-to"),
        (["--after", "000", "--follow", "-f", "parquet"], "cannot be carried on with"),
        (["--after", "000", "--follow", "-o", "rows.arrow"], "cannot be carried on with"),
        (["--after", "yesterday"], "--after: found 'yesterday'"),
        (["--after", "000", "--up-to", "tomorrow"], "--up-to: found 'tomorrow'"),
        (["--after", "000", "--follow", "--limit", "3"], "no limit with --follow"),
        (["--after", "000", "--state-file", "s.json", "--limit", "3"], "no limit with --state-file"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    hudi_bridge: Call, writer: TableWriter, options: list[str], expected: str
) -> None:
    outcome = hudi_bridge("changes", str(writer.folder), *options)
    assert (outcome.code, outcome.text) == (2, "")
    assert expected in outcome.err


@pytest.mark.parametrize("number", one_in(2, [signal.SIGINT, signal.SIGTERM]))
def test_following_writes_what_comes_until_it_is_interrupted(writer: TableWriter, tmp_path: Path, number: int) -> None:
    state = tmp_path / "state.json"
    with following(writer.folder, "--after", "earliest", "--state-file", state, "-f", "json") as process:
        for commit in (1, 2, 3):
            if commit > 1:
                write(writer, commit)
            wait_for_state(state, commit)
            # What the state knows has been flushed.
            assert process.stdout is not None
            assert keys(process.stdout.readline()) == [f"k{commit}"]
        assert stop(process, number) == b""
    write(writer, 4)
    with following(writer.folder, "--after", "earliest", "--state-file", state, "-f", "json") as process:
        wait_for_state(state, 4)
        assert keys(stop(process)) == ["k4"]


@pytest.mark.parametrize("name", one_in(2, ["rows.csv", "rows.json"]))
def test_a_reader_that_is_killed_between_output_and_state_repeats_nothing_in_a_file(
    writer: TableWriter, tmp_path: Path, name: str
) -> None:
    output, state = tmp_path / name, tmp_path / "state.json"
    arguments = (writer.folder, "--after", "earliest", "--state-file", state, "-o", output)
    with following(*arguments) as process:
        wait_for_state(state, 1)
        assert stop(process) == b""
    # As if the reader had been killed while it wrote the changes of the next commit.
    written = output.read_bytes()
    output.write_bytes(written + written[: len(written) // 2])
    write(writer, 2)
    with following(*arguments) as process:
        wait_for_state(state, 2)
        assert stop(process) == b""
    if name.endswith("csv"):
        rows = csv.read_csv(output).to_pylist()
        assert [json.loads(row["after"])["id"] for row in rows] == ["k1", "k2"]
    else:
        assert keys(output.read_text()) == ["k1", "k2"]


def test_a_file_that_is_shorter_than_its_state_says_is_refused(writer: TableWriter, tmp_path: Path) -> None:
    output, state = tmp_path / "rows.json", tmp_path / "state.json"
    output.write_text("")
    state.write_text(json.dumps({"table": str(writer.folder), "after": "0" * 17, "written_bytes": 7}))
    with following(writer.folder, "--state-file", state, "-o", output) as process:
        _, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 2
    assert b"7 bytes" in err


@pytest.mark.long
def test_following_in_arrow_and_in_tables(writer: TableWriter, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with following(writer.folder, "--after", "earliest", "--state-file", state, "-f", "arrow") as process:
        wait_for_state(state, 1)
        write(writer, 2)
        wait_for_state(state, 2)
        rows = pa.ipc.open_stream(stop(process)).read_all()
    assert [row["after"]["id"] for row in rows.to_pylist()] == ["k1", "k2"]
    state.unlink()
    with following(writer.folder, "--after", "earliest", "--state-file", state, "-f", "table") as process:
        wait_for_state(state, 2)
        assert b"ts_ms" in stop(process)


def test_an_error_ends_following(writer: TableWriter) -> None:
    with following(writer.folder, "--after", "earliest", "-f", "json") as process:
        assert process.stdout is not None
        assert keys(process.stdout.readline()) == ["k1"]
        (writer.timeline_folder / f"{at(2)}_{completion_of(at(2))}.commit").write_text("damage")
        _, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 1
    assert at(2).encode() in err


def test_images_can_lack_hudis_own_columns(hudi_bridge: Call, writer: TableWriter) -> None:
    arguments = ("changes", str(writer.folder), "--after", "earliest", "--no-meta-columns")
    (change,) = map(json.loads, hudi_bridge(*arguments, "--format", "json").text.splitlines())
    assert (change["before"], change["after"]) == (None, {"id": "k1", "ts": 1, "value": "v1"})
    refused = hudi_bridge(*arguments, "--cdc")
    assert refused.code != 0
    assert "--no-meta-columns" in refused.err


@pytest.mark.long
def test_images_that_are_followed_can_lack_hudis_own_columns(writer: TableWriter) -> None:
    arguments = (writer.folder, "--after", "earliest", "--no-meta-columns", "--format", "json")
    with following(*arguments) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        stop(process)
    assert json.loads(line)["after"] == {"id": "k1", "ts": 1, "value": "v1"}
