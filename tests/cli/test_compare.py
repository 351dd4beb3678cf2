"""``compare`` beside the package hudi, and beside a process that answers as one with Spark would."""

import datetime as dt
import json
import stat
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.cli.compare import compare_rows, reason
from hudi_bridge.cli.main import run
from tests.support.golden_cases import golden_table

KEYS = {"_hoodie_record_key": ["a", "b"], "_hoodie_partition_path": ["p", "p"]}


def test_types_are_taken_leniently() -> None:
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    here = pa.table(
        {
            "i": pa.array([1, None], pa.int32()),
            "f": pa.array([0.5, float("nan")], pa.float32()),
            "t": pa.array([moment, None], pa.timestamp("ms", "UTC")),
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "s": pa.array(["x", None], pa.string()),
            "b": pa.array([b"xy", None], pa.binary(2)),
            "m": pa.array([[("k", 1), ("l", 2)], None], pa.map_(pa.string(), pa.int32())),
            "n": pa.array([{"x": [1, 2]}, None], pa.struct([("x", pa.list_(pa.int16()))])),
        }
    )
    there = pa.table(
        {
            "n": pa.array([None, {"x": [1, 2]}], pa.struct([("x", pa.list_(pa.int64()))])),
            "i": pa.array([None, 1], pa.int64()),
            "f": pa.array([float("nan"), 0.5], pa.float64()),
            "t": pa.array([None, moment.replace(tzinfo=None)], pa.timestamp("us")),
            "d": pa.array([None, Decimal("1.5")], pa.decimal128(10, 1)),
            "s": pa.array([None, "x"], pa.large_string()),
            "b": pa.array([None, b"xy"], pa.binary()),
            "m": pa.array([None, [("l", 2), ("k", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    assert not compare_rows(here, there, 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 2]), pa.array([1.0, 2.0])),
        (pa.array([None, 2]), pa.array([0, 2])),
        (pa.array(["1", "2"]), pa.array([1, 2])),
        (pa.array([[1], [2]]), pa.array([[1], [3]])),
        (pa.array([0.0, 2.0]), pa.array([-0.0, 2.0])),
    ],
    ids=["number and float", "null", "text", "nested", "sign of zero"],
)
def test_other_values_differ(one: Any, other: Any) -> None:
    actual = compare_rows(pa.table({**KEYS, "v": one}), pa.table({**KEYS, "v": other}), 3)
    assert actual.changed >= 1
    assert all(set(example.columns) == {"v"} for example in actual.examples)


def test_records_are_matched_by_key_and_told_with_both_values() -> None:
    here = pa.table({"_hoodie_record_key": ["a", "b", "c"], "v": [1, 2, 3], "x": [0, 0, 0]})
    there = pa.table({"_hoodie_record_key": ["d", "b", "a"], "v": [4, 5, 1], "y": [0, 0, 0]})
    actual = compare_rows(here, there, 3)
    assert (actual.changed, actual.only_here, actual.only_there) == (1, 1, 1)
    assert (actual.columns_here, actual.columns_there) == (("x",), ("y",))
    assert [(example.side, dict(example.record), dict(example.columns)) for example in actual.examples] == [
        ("both", {"_hoodie_record_key": "b"}, {"v": (2, 5)}),
        ("here", {"_hoodie_record_key": "c"}, {}),
        ("there", {"_hoodie_record_key": "d"}, {}),
    ]


def test_repeated_keys_are_compared_by_whole_rows_and_counted() -> None:
    here = pa.table({"_hoodie_record_key": ["a", "a", "b"], "v": [1, 1, 2]})
    there = pa.table({"_hoodie_record_key": ["a", "b", "b"], "v": [1, 2, 2]})
    actual = compare_rows(here, there, 3)
    assert (actual.changed, actual.only_here, actual.only_there) == (0, 1, 1)
    assert not compare_rows(here, here.take([2, 0, 1]), 3)


def test_a_table_that_both_read_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    table = str(golden_table("a_story_v9_120"))
    assert run(["compare", table, "--with", "hudi"]) == 0
    first, *queries = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{table} beside hudi ")
    assert len(queries) == 8
    assert all(line.endswith(": same") for line in queries)


def test_a_column_that_the_other_reader_lacks_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--with", "hudi", "--option", "hudi_bridge.completion.times=true"]
    assert run(["compare", str(golden_table("a_story_v9_120")), *asked]) == 2
    assert "hudi_bridge.completion.times" in capsys.readouterr().err


def test_where_rows_differ_keys_and_values_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    table = str(golden_table("b_default_payload_0150"))
    assert run(["compare", table, "--with", "hudi", "--instants", "0"]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  snapshot (20 rows): differs: 1 record only here; 1 record only there",
        "    only here: _hoodie_partition_path 'q', _hoodie_record_key 'k10'",
        "    only there: _hoodie_partition_path 'q', _hoodie_record_key 'k04'",
        "  read optimized (26 rows): same",
    ]
    assert run(["compare", table, "--with", "hudi", "--format", "json", "--limit", "0"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["queries"][0]["differences"]["only_here"] == 1


def test_what_the_other_reader_refuses_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    table = str(golden_table("b_multi_ordering_120"))
    assert run(["compare", table, "--with", "hudi", "--instants", "0"]) == 0
    assert "snapshot (12 rows): refused: Config error: Config value 'Multiple ordering" in capsys.readouterr().out


def test_a_table_that_is_refused_here_is_told_among_those_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, version in (("old", "3"), ("new", "9")):
        hoodie = tmp_path / name / ".hoodie"
        (hoodie / "timeline").mkdir(parents=True)
        properties = f"hoodie.table.name=t\nhoodie.table.type=MERGE_ON_READ\nhoodie.table.version={version}\n"
        (hoodie / "hoodie.properties").write_text(properties)
    assert run(["compare", str(tmp_path), "--with", "hudi"]) == 1
    output = capsys.readouterr().out
    assert "snapshot: refused here: unsupported table version: found 3" in output
    assert f"{tmp_path / 'new'} beside" in output


SPARK = """#!{python}
# Answers a snapshot with the rows that lie beside it, and refuses all else.
import json, shutil, sys
from pathlib import Path
assert Path(sys.argv[1]).name == "compare_spark_worker.py"
bundle, folder = sys.argv[2], Path(sys.argv[3])
assert bundle.endswith(".jar")
for job in json.load(sys.stdin):
    if job["options"]:
        text = "An error occurred while calling o1.load.\\n: Not today.\\n\\tat x"
        (folder / f"{{job['answer']}}.error").write_text(text)
    else:
        (folder / job["answer"]).mkdir()
        shutil.copy("{answer}", folder / job["answer"] / "part.parquet")
"""


def test_spark_is_a_process_that_writes_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = golden_table("a_story_v9_120")
    python, bundle = tmp_path / "python", tmp_path / "hudi-spark3.5-bundle_2.12-1.2.0.jar"
    python.write_text(SPARK.format(python=sys.executable, answer=table.parent / "expected" / "snapshot.parquet"))
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    bundle.touch()
    command = ["compare", str(table), "--with", "spark", "--python", str(python), "--bundle", str(bundle)]
    assert run([*command, "--instants", "0"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{table} beside spark, hudi 1.2.0",
        f"  snapshot ({HudiTable.open(str(table)).snapshot().count_rows()} rows): same",
        "  read optimized (69 rows): refused: Not today.",
    ]
    python.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no Java here')\n")
    assert run(command) == 2
    assert "no Java here" in capsys.readouterr().err
    assert run(["compare", str(table), "--with", "spark", "--bundle", str(tmp_path / "none.jar")]) == 2


def test_a_reason_is_one_line() -> None:
    assert reason("An error occurred while calling o1.load.\n: it broke\n\tat here") == "it broke"
    assert reason("") == "no reason given"
    assert len(reason("x" * 500)) == 201
