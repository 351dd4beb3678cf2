import errno
import io
import json
import resource
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from itertools import starmap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from rich.cells import cell_len

from hudi_bridge import HudiDataset, HudiTable
from hudi_bridge.cli.output import UnwritableFileError, open_sink
from tests.cli.conftest import COMMAND, ROOT, Counters, Outcome
from tests.support.compacted_table import Compacted
from tests.support.compare import differences
from tests.support.golden_cases import golden_case, golden_table
from tests.support.golden_queries import QUERIES, answer_of
from tests.support.strength import one_in
from tests.support.table_writer import KEY_AND_VALUE, Row, TableWriter, at

Call = Callable[..., Outcome]
TEXTS = csv.ConvertOptions(column_types={"value": pa.string()}, strings_can_be_null=False)


def test_csv_keeps_every_value(hudi_bridge: Call, story: str) -> None:
    rows = HudiTable.open(story).snapshot().to_table()
    outcome = hudi_bridge("read", story)
    options = csv.ConvertOptions(column_types=rows.schema, strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert differences(rows, csv.read_csv(io.BytesIO(outcome.out), convert_options=options)) == []


@pytest.mark.parametrize("where", [[], ["--where", "ts <= (SELECT max(ts) FROM t)"]], ids=["all", "where"])
def test_files_that_go_before_the_first_row(
    hudi_bridge: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: list[str]
) -> None:
    table = Compacted(tmp_path / "t")

    def go_then(dataset: HudiDataset) -> int:
        list(dataset.splits())
        table.compact()
        return 0

    monkeypatch.setattr(HudiDataset, "left_out_log_files", go_then)
    command = ["read", str(tmp_path / "t"), "--format", "csv", "--columns", "value", *where]
    assert "the file is gone" in hudi_bridge(*command).err
    outcome = hudi_bridge(*command, "--on-files-gone", "replan")
    assert outcome.text.splitlines()[1:] == ['"3"', '"3"']
    assert f"read as of {at(9)} instead of {at(6)}" in outcome.err


@pytest.mark.parametrize("chosen", [["--as-of", "2026-01-31"], ["--after", "earliest"]])
def test_what_was_asked_for_is_not_planned_again(hudi_bridge: Call, story: str, chosen: list[str]) -> None:
    outcome = hudi_bridge("read", story, "--on-files-gone", "replan", *chosen)
    assert (outcome.code, "--on-files-gone" in outcome.err) == (2, True)


@pytest.mark.parametrize("where", [[], ["--where", "true"]], ids=["all", "where"])
@pytest.mark.parametrize(
    "case", one_in(3, ["f_types_120", "f_types_ntz_120", "f_millis_120", "f_case_names_120", "e_nonpart_120"])
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


def test_json_does_not_lose_columns_of_one_name(hudi_bridge: Call, story: str) -> None:
    query = "SELECT a.id, b.id FROM t a JOIN t b ON a.id = b.id LIMIT 1"
    for command in (("read", story, "--columns", "id,id"), ("sql", story, query)):
        outcome = hudi_bridge(*command, "-f", "json")
        assert (outcome.code, outcome.text) == (2, "")
        assert "several columns named id" in outcome.err


def test_years_that_arrow_does_not_write(hudi_bridge: Call, tmp_path: Path) -> None:
    fields = (*KEY_AND_VALUE, ("d", {"type": "int", "logicalType": "date"}))
    table = TableWriter(folder=tmp_path / "t", fields=fields).create()
    rows: list[Row] = [{"id": key, "ts": 1, "value": "", "d": days} for key, days in (("a", 1), ("b", 20454000))]
    table.commit(at(1), wrote=[table.base_file(at(1), rows)])
    query = ("read", str(table.folder), "--columns", "id,d", "-f")
    assert hudi_bridge(*query, "csv").text.splitlines() == ['"id","d"', '"a","1970-01-02"', '"b","57971-02-25"']
    assert [json.loads(line)["d"] for line in hudi_bridge(*query, "json").text.splitlines()] == [
        "1970-01-02",
        "57971-02-25",
    ]
    near = hudi_bridge(*query, "csv", "--where", "id = 'a'")
    assert near.text.splitlines() == ['"id","d"', '"a",1970-01-02']


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
    assert (outcome.code, outcome.out) == (2, b"")
    assert options[0] in outcome.err


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "arrow", "table"])
@pytest.mark.parametrize("case", ["i_empty_120", "i_only_inflight_120"])
def test_empty_tables(hudi_bridge: Call, case: str, form: str) -> None:
    outcome = hudi_bridge("read", str(golden_table(case)), "-f", form)
    assert (outcome.code, outcome.err) == (0, "")


def test_a_failed_read_leaves_no_file(hudi_bridge: Call, tmp_path: Path, damaged_table: Path) -> None:
    outcome = hudi_bridge("read", str(damaged_table), "-o", str(tmp_path / "rows.csv"))
    assert outcome.code == 1
    assert not list(tmp_path.glob("*rows.csv*"))


@pytest.mark.parametrize("form", one_in(2, ["csv", "json", "parquet", "arrow"]))
def test_a_file_that_cannot_be_written_is_named_as_the_user_named_it(
    hudi_bridge: Call, story: str, tmp_path: Path, form: str
) -> None:
    (tmp_path / "folder").mkdir()
    for path, reason in (
        (f"{tmp_path}/no/rows", "No such file or directory"),
        (f"{tmp_path}/folder", "Is a directory"),
        ("/dev/full", "No space left on device"),
    ):
        for options in ([], ["--where", "true"]):
            outcome = hudi_bridge("read", story, "-o", path, "-f", form, *options)
            assert (outcome.code, outcome.err) == (1, f"hudi-bridge: {path} cannot be written: {reason}\n")


def test_a_full_disk_leaves_nothing(hudi_bridge: Call, story: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text("before")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        outcome = hudi_bridge("read", story, "-o", str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert (outcome.code, outcome.err) == (1, f"hudi-bridge: {path} cannot be written: File too large\n")
    assert [item.name for item in tmp_path.iterdir()] == ["rows.json"]
    assert path.read_text() == "before"


def test_links_that_others_have_made_are_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_victim").write_text("whole")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".out.csv.guessed.part").symlink_to(tmp_path / "of_victim")
    with pytest.raises(UnwritableFileError, match=r"out\.csv cannot be written"), open_sink(tmp_path / "out.csv"):
        pass
    assert (tmp_path / "of_victim").read_text() == "whole"
    assert (tmp_path / ".out.csv.guessed.part").is_symlink()


def test_a_spreadsheet_has_no_formulas(hudi_bridge: Call, tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t").create()
    texts = ["=1+1", "+1", "-1", "@sum", "\tx", "\uff1dx", "a=1", "", "1-1"]
    rows: list[Row] = [{"id": str(number), "ts": -number, "value": text} for number, text in enumerate(texts)]
    table.commit(at(1), wrote=[table.base_file(at(1), rows)])
    command = ("read", str(table.folder), "--columns", "id,ts,value", "--format")
    read = csv.read_csv(io.BytesIO(hudi_bridge(*command, "spreadsheet").out), convert_options=TEXTS).to_pylist()
    escaped = [f"'{text}" for text in texts[:6]] + texts[6:]
    assert sorted((row["ts"], row["value"]) for row in read) == sorted(zip(range(0, -9, -1), escaped, strict=True))
    as_ever = csv.read_csv(io.BytesIO(hudi_bridge(*command, "csv").out), convert_options=TEXTS).to_pylist()
    assert sorted(row["value"] for row in as_ever) == sorted(texts)


def test_no_clobber_keeps_what_is_there(hudi_bridge: Call, story: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    first = hudi_bridge("read", story, "-o", str(path), "--no-clobber", "--columns", "id")
    assert (first.code, len(path.read_text().splitlines())) == (0, 66)
    written = path.stat()
    for arguments in (
        ("read", story),
        ("read", story, "--where", "true"),
        ("sql", story, "FROM t"),
        ("info", story),
        ("schema", story),
        ("schema", story, "--infer", "-f", "json"),
        ("timeline", story),
        ("slices", story),
        ("splits", story),
        ("trace", story, "k00067"),
        ("trino", "explain", story),
        ("changes", story, "--after", "earliest"),
        ("changes", story, "--after", "earliest", "--follow"),
    ):
        outcome = hudi_bridge(*arguments, "-o", str(path), "--no-clobber")
        assert outcome.code == 1
        assert f"{path} cannot be written: it is there already, and --no-clobber keeps it" in outcome.err
    assert path.stat() == written
    assert [item.name for item in tmp_path.iterdir()] == ["rows.csv"]
    assert hudi_bridge("read", story, "-o", str(path), "--columns", "qty").code == 0
    assert path.read_text().startswith('"qty"')
    assert hudi_bridge("read", story, "-o", "/dev/null", "-f", "csv", "--no-clobber").code == 0


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_no_clobber_keeps_a_file_that_has_appeared_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    path = tmp_path / "rows.csv"
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    with ExitStack() as stack:
        stack.enter_context(open_sink(path, no_clobber=True)).write(b"ours")
        path.write_bytes(b"theirs")
        with pytest.raises(UnwritableFileError, match="there already"):
            stack.close()
    assert path.read_bytes() == b"theirs"
    path.unlink()
    with open_sink(path, no_clobber=True) as sink:
        sink.write(b"ours")
    assert path.read_bytes() == b"ours"
    assert [item.name for item in tmp_path.iterdir()] == ["rows.csv"]


@pytest.mark.parametrize(
    ("columns", "where"), one_in(3, starmap(pytest.param, [(26, []), (50, ["--where", "true"]), (80, [])]))
)
def test_a_narrow_terminal_keeps_the_record_key_and_the_partition(
    in_terminal: Callable[..., str], story: str, columns: int, where: list[str]
) -> None:
    seen = in_terminal("read", story, "--limit", "1", *where, columns=columns)
    header = next(line for line in seen.splitlines() if line.startswith("│"))
    assert [name for name in header.replace("│", " ").split() if name in ("id", "part")] == ["id", "part"]


@pytest.mark.parametrize("width", one_in(2, [1, 30]))
def test_a_key_that_is_long_is_cut_in_the_middle_and_prose_at_its_end(
    in_terminal: Callable[..., str], tmp_path: Path, width: int
) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    key = "customer-" + "漢字" * width + "0123456789" * 3 + "-z"
    writer.base_file(at(1), [{"id": key, "ts": 1, "value": "words and words " * 9}])
    writer.commit(at(1))
    seen = in_terminal("read", str(writer.folder), columns=50)
    (row,) = (line for line in seen.splitlines() if line.startswith("│") and "words" in line)
    assert cell_len(row) == 50
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    cut = next(cell for cell in cells if cell.startswith("custo"))
    assert cut.endswith("-z")
    assert "…" in cut
    assert next(cell for cell in cells if cell.startswith("words")).endswith("…")


@pytest.mark.parametrize(
    "arguments",
    one_in(
        4,
        [
            ("read", "TABLE"),
            ("read", "TABLE", "--where", "true"),
            ("read", "TABLE", "-f", "json"),
            ("read", "TABLE", "-f", "table"),
            ("info", "TABLE"),
            ("slices", "TABLE", "-f", "table"),
            ("--help",),
            ("read", "--help"),
        ],
    ),
    ids=" ".join,
)
def test_a_reader_that_has_had_enough_ends_it_quietly(arguments: tuple[str, ...]) -> None:
    table = str(golden_table("h_column_stats_120"))
    command = [*COMMAND, *(table if argument == "TABLE" else argument for argument in arguments)]
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
        assert (outcome.code, message in outcome.err) == (2, True)


def test_hudis_own_columns_are_left_out_of_all_columns(hudi_bridge: Call) -> None:
    path = str(golden_table("a_story_v9_120"))
    table = HudiTable.open(path)
    own = [name for name in table.schema.names if not name.startswith("_hoodie_")]
    [key] = table.snapshot().head(1, ["_hoodie_record_key"]).column(0).to_pylist()
    for command in (("read", path), ("get", path, key), ("sql", path, "FROM t")):
        text = hudi_bridge(*command, "--no-meta-columns", "--format", "csv").text
        assert text.splitlines()[0].replace('"', "").split(",") == own, command
        assert "_hoodie_record_key" in hudi_bridge(*command, "--format", "csv").text
    named = hudi_bridge("read", path, "--columns", "_hoodie_record_key", "--no-meta-columns", "--format", "csv").text
    assert named.splitlines()[0] == '"_hoodie_record_key"'
    explained = json.loads(hudi_bridge("explain", path, "--no-meta-columns", "--format", "json").text)
    assert explained["columns"] == own


def test_hudis_own_columns_are_left_out_of_conditions_and_ranges(hudi_bridge: Call) -> None:
    path = str(golden_table("a_story_v9_120"))
    arguments = ("--after", "earliest", "--where", "_hoodie_record_key IS NOT NULL", "--no-meta-columns")
    rows = hudi_bridge("read", path, *arguments, "--format", "json").text.splitlines()
    assert len(rows) == HudiTable.open(path).incremental("earliest").count_rows()
    assert not any(name.startswith("_hoodie_") for row in map(json.loads, rows) for name in row)


@pytest.mark.parametrize(
    "command", [["read"], ["read", "--no-meta-columns"], ["get", "k1"], ["changes", "--after", "earliest"]]
)
def test_completion_times_are_a_column(hudi_bridge: Call, tmp_path: Path, command: list[str]) -> None:
    table = TableWriter(folder=tmp_path / "t").create()
    rows: list[Row] = [{"id": "k1", "ts": 1, "value": "x"}]
    table.commit(at(1), action="commit", wrote=[table.base_file(at(1), rows)], completed=at(3))
    name, *arguments = command
    outcome = hudi_bridge(name, str(tmp_path / "t"), *arguments, "--completion-times", "--format", "json")
    (row,) = map(json.loads, outcome.text.splitlines())
    assert row["_hoodie_commit_completion_time"] == at(3)
