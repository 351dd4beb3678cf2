import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from hudi_bridge import HudiTable
from tests.cli.conftest import COMMAND, ROOT, Counters, Outcome
from tests.compare import differences
from tests.golden_cases import golden_case, golden_table
from tests.test_golden import QUERIES, answer_of

Call = Callable[..., Outcome]


def test_csv_keeps_every_value(hudi_bridge: Call, story: str) -> None:
    rows = HudiTable.open(story).snapshot().to_table()
    outcome = hudi_bridge("read", story)
    options = csv.ConvertOptions(column_types=rows.schema, strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert differences(rows, csv.read_csv(io.BytesIO(outcome.out), convert_options=options)) == []


@pytest.mark.parametrize("where", [[], ["--where", "true"]], ids=["all", "where"])
@pytest.mark.parametrize(
    "case", ["f_types_120", "f_types_ntz_120", "f_millis_120", "f_case_names_120", "e_nonpart_120"]
)
def test_binary_formats_keep_types_and_values(hudi_bridge: Call, tmp_path: Path, case: str, where: list[str]) -> None:
    table = str(golden_table(case))
    expected = HudiTable.open(table).snapshot().to_table()
    in_pipe = pa.ipc.open_stream(hudi_bridge("read", table, "-f", "arrow", *where).out).read_all()
    assert in_pipe.schema.equals(expected.schema)
    assert differences(expected, in_pipe) == []
    for name, read in (("rows.parquet", pq.read_table), ("rows.arrow", _read_arrow_file)):
        assert hudi_bridge("read", table, "-o", str(tmp_path / name), *where).code == 0
        assert differences(expected, read(tmp_path / name)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.arrow", "rows.parquet"]
    parquet = pq.read_table(io.BytesIO(hudi_bridge("read", table, "-f", "parquet", *where).out))
    assert differences(expected, parquet) == []


def test_json_is_one_object_a_line(hudi_bridge: Call) -> None:
    table = str(golden_table("f_types_120"))
    columns = "id,dec102,d,b,da,tm,st,m,ast"
    lines = hudi_bridge("read", table, "-f", "json", "--columns", columns, "--where", "id = 'k0062'").text.splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "id": "k0062",
            "dec102": "0.01",
            "d": 1.7976931348623157e308,
            "b": "",
            "da": "1582-10-15",
            "tm": "1900-01-01 00:00:00.000001Z",
            "st": {"x": 62, "y": "plain", "z": None},
            "m": {"key1": 1, "key0": 0},
            "ast": [{"k": "日本語テキスト", "v": 434914065751}, {"k": 'line\nbreak\t"q"', "v": 132536593525}],
        }
    ]


def test_columns_conditions_and_limit(hudi_bridge: Call, story: str) -> None:
    outcome = hudi_bridge(
        "read", story, "--columns", "qty, id", "--where", "part = 'a' AND qty > 0 -- only", "--limit", "3", "-f", "json"
    )
    rows = [json.loads(line) for line in outcome.text.splitlines()]
    assert len(rows) == 3
    assert all(list(row) == ["qty", "id"] and row["qty"] > 0 for row in rows)
    assert len(hudi_bridge("read", story, "--limit", "7").text.splitlines()) == 8
    assert hudi_bridge("read", story, "--columns", "id", "--limit", "0").text == '"id"\n'


def test_read_optimized_says_what_it_leaves_out(hudi_bridge: Call, story: str) -> None:
    outcome = hudi_bridge("read", story, "--read-optimized", "--where", "true")
    expected = pq.read_table(golden_case("a_story_v9_120") / "expected" / "read_optimized.parquet")
    assert len(outcome.text.splitlines()) == 1 + expected.num_rows
    assert outcome.err == "read optimized: changes in 10 log files are left out\n"


def test_damaged_blocks_that_hudi_skips_are_counted(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("read", str(golden_table("c_corrupt_middle_0150")))
    assert outcome.code == 0
    assert "damaged log block" in outcome.err


def test_as_of(hudi_bridge: Call, story: str) -> None:
    outcome = hudi_bridge("read", story, "--as-of", "20261121133043567", "-f", "json")
    assert len(outcome.text.splitlines()) == 60


@pytest.mark.parametrize("where", [[], ["--where", "ts > 0"]], ids=["all", "where"])
def test_a_range_of_commits(hudi_bridge: Call, story: str, where: list[str]) -> None:
    first, second, *_, last = HudiTable.open(story).timeline.commits()
    times = [commit.completion_time or "" for commit in (first, second, last)]
    outcome = hudi_bridge("read", story, "--after", times[0], "--columns", "id", "-f", "json", *where)
    assert len(outcome.text.splitlines()) == HudiTable.open(story).incremental(times[0]).count_rows()
    assert outcome.err == f"the range that follows begins with --after {times[2]}\n"
    outcome = hudi_bridge("read", story, "--after", "earliest", "--up-to", times[1], "--limit", "2", *where)
    assert len(outcome.text.splitlines()) == 3
    assert outcome.err == f"the range that follows begins with --after {times[1]}\n"


@pytest.mark.parametrize(
    "options",
    [["--up-to", "2026-01-31"], ["--after", "000", "--as-of", "2026-01-31"], ["--after", "000", "--read-optimized"]],
)
def test_a_range_goes_with_a_begin_alone(hudi_bridge: Call, story: str, options: list[str]) -> None:
    outcome = hudi_bridge("read", story, *options)
    assert (outcome.code, outcome.out) == (1, b"")
    assert options[0] in outcome.err


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "arrow", "table"])
@pytest.mark.parametrize("case", ["i_empty_120", "i_only_inflight_120"])
def test_empty_tables(hudi_bridge: Call, case: str, form: str) -> None:
    outcome = hudi_bridge("read", str(golden_table(case)), "-f", form)
    assert (outcome.code, outcome.err) == (0, "")


def test_a_failed_read_leaves_no_file(hudi_bridge: Call, tmp_path: Path, damaged_table: Path) -> None:
    outcome = hudi_bridge("read", str(damaged_table), "-o", str(tmp_path / "rows.csv"))
    assert outcome.code == 2
    assert not list(tmp_path.glob("*rows.csv*"))


def test_a_reader_that_has_had_enough_ends_it_quietly() -> None:
    table = str(golden_table("h_column_stats_120"))
    for extra in ([], ["--where", "true"], ["-f", "json"]):
        command = [*COMMAND, "read", table, *extra]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0


def _read_arrow_file(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.OSFile(str(path), "rb")).read_all()


def test_a_payload_of_ones_own_merges(hudi_bridge: Call, counters: Counters) -> None:
    table, named = counters.table, counters.payload
    assert (hudi_bridge("read", table).code, hudi_bridge("splits", table).code) == (1, 1)
    assert hudi_bridge("splits", table, *named).code == 0
    for arguments in (("read", table, "--columns", "ts"), ("sql", table, "SELECT ts FROM t")):
        assert hudi_bridge(*arguments, *named).text == '"ts"\n3\n'
    assert "combined by" in hudi_bridge("trace", table, "a", *named).text


def test_options_say_what_a_table_of_hudi_0_does_not(hudi_bridge: Call) -> None:
    table = str(golden_table("b_spark_merger_0150"))
    merger = "hoodie.datasource.write.record.merger.impls=org.apache.hudi.HoodieSparkRecordMerger"
    read = pa.ipc.open_stream(hudi_bridge("read", table, "-f", "arrow", "--option", merger).out).read_all()
    assert differences(answer_of(QUERIES["b_spark_merger_0150", 0]), read) == []
    for wrong, message in (("nonsense", "--option"), ("=x", "--option"), ("hoodie.nonsense=1", "hoodie.nonsense")):
        outcome = hudi_bridge("read", table, "--option", wrong)
        assert (outcome.code, message in outcome.err) == (1, True)
