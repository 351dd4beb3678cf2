"""What a damaged, foreign or hostile table does: one clear error each, and never an exception of another kind."""

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_bridge import (
    CorruptBaseFileError,
    CorruptLogFileError,
    CorruptTableError,
    CorruptTimelineError,
    DataFileGoneError,
    HudiReadError,
    HudiTable,
    QueryError,
    RealtimeFileSplit,
    TableNotFoundError,
    UnsupportedTableError,
    open_reader,
)
from hudi_bridge.logformat.layout import MAGIC
from hudi_bridge.timeline.records import parse_record
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in

ONE_SLICE = "b_null_ordering_int_120"
"""A table of version 9 with one file slice: a base file and two log files."""

COMPACTING = "d_pending_compaction_120"
LAYOUT_1 = "c_data_and_delete_block_0150"
HFILE_BLOCKS = "c_hfile_blocks_0150"

PROPERTIES = ".hoodie/hoodie.properties"
BACKUP = ".hoodie/hoodie.properties.backup"
COMMIT = ".hoodie/timeline/*.deltacommit"
PLAN = ".hoodie/timeline/*.compaction.requested"
BASE = "*/*.parquet"
LOG = "*/.*.log.*"

Damage = Callable[[Path], object]

GARBAGE = bytes(range(256)) * 4


def newest(table: Path, pattern: str) -> Path:
    return max(path for path in table.glob(pattern) if not path.name.endswith(".crc"))


def overwrite(pattern: str, content: bytes) -> Damage:
    return lambda table: newest(table, pattern).write_bytes(content)


def cut(pattern: str, part: float) -> Damage:
    def damage(table: Path) -> None:
        path = newest(table, pattern)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * part)])

    return damage


def replace(pattern: str, old: bytes, new: bytes) -> Damage:
    def damage(table: Path) -> None:
        path = newest(table, pattern)
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new, 1))

    return damage


def patch(pattern: str, offset: int, new: bytes) -> Damage:
    def damage(table: Path) -> None:
        path = newest(table, pattern)
        content = path.read_bytes()
        path.write_bytes(content[:offset] + new + content[offset + len(new) :])

    return damage


def add(path: str, content: bytes = b"") -> Damage:
    return lambda table: (table / path).write_bytes(content)


def in_order(*steps: Damage) -> Damage:
    def damage(table: Path) -> None:
        for step in steps:
            step(table)

    return damage


FORMAT_VERSION_OFFSET = 14
BLOCK_TYPE_OFFSET = 18

DAMAGES: dict[str, tuple[Damage, type[HudiReadError], str]] = {
    "the folder is gone": (shutil.rmtree, TableNotFoundError, "no such folder"),
    "the folder is empty": (in_order(shutil.rmtree, Path.mkdir), TableNotFoundError, "is empty"),
    "only data files": (lambda table: shutil.rmtree(table / ".hoodie"), TableNotFoundError, r"no \.hoodie"),
    "a file": (in_order(shutil.rmtree, Path.touch), TableNotFoundError, "a file"),
    "no properties": (lambda table: (table / PROPERTIES).unlink(), CorruptTimelineError, "no such file, and no backup"),
    "empty properties": (overwrite(PROPERTIES, b""), CorruptTimelineError, "without hoodie.table.name"),
    "half of the properties": (cut(PROPERTIES, 0.5), CorruptTimelineError, "hoodie.properties"),
    "binary properties": (overwrite(PROPERTIES, GARBAGE), CorruptTimelineError, "hoodie.properties"),
    "properties with a bad escape": (
        replace(PROPERTIES, b"hoodie.table.name=", b"hoodie.table.name=\\uZZ"),
        CorruptTimelineError,
        "hexadecimal",
    ),
    "a version to come": (
        replace(PROPERTIES, b"hoodie.table.version=9", b"hoodie.table.version=11"),
        UnsupportedTableError,
        "table version: found 11, supported: 5, 6, 8, 9",
    ),
    "a version that is no number": (
        replace(PROPERTIES, b"hoodie.table.version=9", b"hoodie.table.version=nine"),
        CorruptTimelineError,
        "nine, expected a whole number",
    ),
    "another base file format": (
        replace(PROPERTIES, b"file.format=PARQUET", b"file.format=CSV"),
        UnsupportedTableError,
        "base file format: found CSV, supported: PARQUET, ORC, HFILE, LANCE",
    ),
    "a base file of another format": (
        replace(PROPERTIES, b"file.format=PARQUET", b"file.format=ORC"),
        UnsupportedTableError,
        r"base file format: found .*\.parquet, supported: ORC base files",
    ),
    "half of a commit": (cut(COMMIT, 0.5), CorruptTimelineError, r"\.deltacommit"),
    "a binary commit": (overwrite(COMMIT, GARBAGE), CorruptTimelineError, r"\.deltacommit"),
    "a commit in JSON without an end": (
        overwrite(COMMIT, b'{"partitionToWriteStats": {'),
        CorruptTimelineError,
        "deltacommit",
    ),
    "a schema that does not end": (
        replace(COMMIT, b'{"type":"record"', b'{"type":"recor"}'),
        CorruptTimelineError,
        "deltacommit",
    ),
    "half of a base file": (cut(BASE, 0.5), CorruptBaseFileError, r"\.parquet.*readable Parquet"),
    "an empty base file": (overwrite(BASE, b""), CorruptBaseFileError, r"\.parquet.*readable Parquet"),
    "a binary base file": (overwrite(BASE, GARBAGE), CorruptBaseFileError, r"\.parquet.*readable Parquet"),
    "a base file with damaged pages": (patch(BASE, 4, GARBAGE), CorruptBaseFileError, r"\.parquet.*readable Parquet"),
    "a binary log file": (overwrite(LOG, GARBAGE), CorruptLogFileError, r"\.log\..* at byte 0: .*#HUDI#"),
    "a log file without its first magic": (patch(LOG, 0, b"#HUDA#"), CorruptLogFileError, "at byte 0: .*#HUDI#"),
    "a block of an unknown type": (
        patch(LOG, BLOCK_TYPE_OFFSET, b"\0\0\0\x63"),
        UnsupportedTableError,
        r"99.*\.log\..*byte 0",
    ),
    "a log format to come": (patch(LOG, FORMAT_VERSION_OFFSET, b"\0\0\0\2"), UnsupportedTableError, r"log format.*2"),
    "a block whose schema is no JSON": (
        replace(LOG, b'{"type":"record"', b'("type":"record"'),
        CorruptTableError,
        r"\.log\..* at byte \d+: .*schema",
    ),
    "a native log file": (
        add("p/762d5132-da09-4566-941f-38664479ca73-0_0-1-1_20261121142916849_1.log.parquet"),
        UnsupportedTableError,
        "native log file",
    ),
    "a base file in ORC": (
        add("p/762d5132-da09-4566-941f-38664479ca73-0_0-1-1_20261121142916849.orc"),
        UnsupportedTableError,
        "base file format.*Parquet",
    ),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return copy_of(ONE_SLICE, tmp_path)


def copy_of(case: str, folder: Path) -> Path:
    target = folder / "table"
    shutil.copytree(golden_table(case), target, ignore=shutil.ignore_patterns("metadata", "*.crc"))
    return target


def read(table: Path) -> pa.Table:
    return HudiTable.open(str(table)).snapshot().to_table()


@pytest.mark.parametrize(("damage", "error", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_told(table: Path, damage: Damage, error: type[HudiReadError], message: str) -> None:
    damage(table)
    with pytest.raises(error, match=f"(?s){message}") as raised:
        read(table)
    assert raised.type is error


@pytest.mark.parametrize("content", [b"", GARBAGE, b"Obj\x01"], ids=["empty", "binary", "cut"])
def test_an_unreadable_compaction_plan_is_told(tmp_path: Path, content: bytes) -> None:
    table = copy_of(COMPACTING, tmp_path)
    newest(table, PLAN).write_bytes(content)
    with pytest.raises(CorruptTimelineError, match=r"\.compaction\.requested"):
        read(table)


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:99])], ids=["gone", "cut"]
)
def test_a_backup_of_the_properties_stands_in(table: Path, damage: Callable[[Path], object]) -> None:
    whole = read(table)
    shutil.copy(table / PROPERTIES, table / BACKUP)
    damage(table / PROPERTIES)
    assert differences(whole, read(table)) == []


def test_of_two_damaged_property_files_the_first_is_told(table: Path) -> None:
    (table / BACKUP).write_bytes(b"hoodie.table.name")
    (table / PROPERTIES).write_bytes(b"")
    with pytest.raises(CorruptTimelineError) as raised:
        read(table)
    assert raised.value.path == PROPERTIES


@pytest.mark.parametrize("pattern", [BASE, LOG])
def test_a_file_that_is_gone_since_the_plan_is_told(table: Path, pattern: str) -> None:
    dataset = HudiTable.open(str(table)).snapshot()
    assert list(dataset.splits())
    path = newest(table, pattern)
    path.unlink()
    with pytest.raises(DataFileGoneError) as raised:
        dataset.to_table()
    assert raised.value.path == str(path.relative_to(table))
    assert raised.value.query_instant == dataset.instant


def test_an_unknown_content_version_is_told(table: Path) -> None:
    path = newest(table, LOG)
    content = path.read_bytes()
    # The content of the data block: its length, content version 3, the number of records.
    match = re.search(rb"(\x00{6}..)\x00{3}\x03(\x00{3}.)", content, re.DOTALL)
    assert match is not None
    path.write_bytes(content[: match.start()] + match[1] + b"\x00\x00\x00\x09" + match[2] + content[match.end() :])
    with pytest.raises(UnsupportedTableError, match=r"log block content: found 9 in p/"):
        read(table)


def test_a_commit_without_content_says_nothing(table: Path) -> None:
    whole = read(table)
    newest(table, COMMIT).write_bytes(b"")
    assert differences(whole, read(table)) == []


def test_a_cut_log_file_reads_as_if_its_last_block_were_not_there(table: Path) -> None:
    path = newest(table, LOG)
    content = path.read_bytes()
    blocks = [match.start() for match in re.finditer(MAGIC, content)]
    answers = []
    for end in [blocks[0] + 1, *blocks[1:], len(content)]:
        path.write_bytes(content[:end])
        answers.append(read(table))
    path.write_bytes(b"")
    with pytest.raises(CorruptTableError, match="found 0 bytes, expected the file of"):
        read(table)
    for end in {*range(blocks[0] + len(MAGIC), len(content), 61), *(start + 6 for start in blocks), len(content) - 1}:
        path.write_bytes(content[:end])
        whole_blocks = sum(start < end for start in blocks) - 1
        assert differences(answers[whole_blocks], read(table)) == []


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "p/../../x", "p\\..\\x", "p/\0"])
@pytest.mark.parametrize("name", ["base_path", "log_paths"])
def test_a_split_cannot_leave_its_table(table: Path, name: str, path: str) -> None:
    (split,) = HudiTable.open(str(table)).splits()
    document = json.loads(split.to_json())
    document["split"][name] = [path] if name == "log_paths" else path
    with pytest.raises(CorruptTableError, match="leaves the table's folder"):
        list(open_reader(RealtimeFileSplit.from_json(json.dumps(document))).batches())


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 99}', '{"format": 1, "split": {}}', "null", '"\\ud800"'])
def test_a_text_that_is_no_split_is_told(text: str) -> None:
    with pytest.raises(QueryError, match="split"):
        RealtimeFileSplit.from_json(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("with space", "with space"),
        ("part=b", "b"),
        ("ünï", "ünï"),
        ("a%2Fb", "a/b"),
        ("100%", "100%"),
        ("#1?x&2", "#1?x&2"),
        ("'\"`;--", "'\"`;--"),
        ("line\nbreak", "line\nbreak"),
        ("~", "~"),
        ("*", "*"),
        ("[a]", "[a]"),
    ],
)
def test_partition_folders_may_have_odd_names(table: Path, name: str, value: str) -> None:
    whole = read(table)
    (table / "p").rename(table / name)
    for path in (table / ".hoodie" / "timeline").glob("*commit"):
        commit = dict(parse_record(path.read_bytes(), str(path)))
        for stat in (stat for stats in commit["partitionToWriteStats"].values() for stat in stats):
            stat["path"] = f"{name}/{stat['path'].removeprefix('p/')}"
        path.write_text(json.dumps(commit))
    actual = read(table)
    assert differences(whole.drop_columns("part"), actual.drop_columns("part")) == []
    assert set(actual["part"].to_pylist()) == {value}


def test_a_folder_that_leads_back_to_itself_ends(table: Path) -> None:
    whole = read(table)
    (table / "stray").mkdir()
    (table / "stray" / "loop").symlink_to(table / "stray")
    assert differences(whole, read(table)) == []


@pytest.mark.heavy
@pytest.mark.parametrize("case", one_in(3, [ONE_SLICE, LAYOUT_1, HFILE_BLOCKS]))
def test_random_damage_never_escapes_the_error_tree(tmp_path: Path, case: str) -> None:
    table = copy_of(case, tmp_path)
    chance = random.Random(20261121)
    patterns = (PROPERTIES, LOG, ".hoodie/**/*commit", ".hoodie/**/*.commit")
    paths = sorted({path for pattern in patterns for path in table.glob(pattern)})
    messages: list[str] = []
    escaped: list[str] = []
    for _ in range(100):
        path = chance.choice(paths)
        whole = path.read_bytes()
        position = chance.randrange(len(whole))
        damaged = whole[:position]
        if chance.random() < 0.8:
            damaged += bytes([whole[position] ^ 1 << chance.randrange(8)]) + whole[position + 1 :]
        path.write_bytes(damaged)
        try:
            HudiTable.open(str(table)).snapshot().to_table(use_threads=False)
        except HudiReadError as error:
            messages.append(str(error))
        except Exception as error:  # noqa: BLE001 - collected and shown below
            escaped.append(f"{path.relative_to(table)} {len(damaged)}/{len(whole)} at {position}: {error!r}")
        path.write_bytes(whole)
    assert escaped == []
    assert messages
    assert all(messages)
