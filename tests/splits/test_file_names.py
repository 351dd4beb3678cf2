"""The grammar of base file and log file names."""

import itertools

import pytest

from hudi_bridge.splits.file_slice import LogFileName, is_data_file, parse_base_file_name, parse_log_file_name

UUID = "f8b40c83-46ee-4dfe-bac5-8a7a98f31a50"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (f"{UUID}-0_1-2-3_20261121133031439.parquet", (f"{UUID}-0", "1-2-3", "20261121133031439", "parquet")),
        ("00000007-ab_0-1-0_20190101000000.orc", ("00000007-ab", "0-1-0", "20190101000000", "orc")),
        ("f_t_001.hfile", ("f", "t", "001", "hfile")),
    ],
)
def test_base_files(name: str, parts: tuple[str, str, str, str]) -> None:
    parsed = parse_base_file_name(name)
    assert parsed is not None
    assert (parsed.file_id, parsed.write_token, parsed.instant_time, parsed.extension) == parts


@pytest.mark.parametrize(
    "name",
    [
        "",
        "part-0000.parquet",
        "f_t_001",
        "f_t_00x.parquet",
        "f_t_001.parquet.crc",
        "f_t_001.parquet\n",
        "f_001.parquet",
        ".f_t_001.parquet",
        "a_f_t_001.parquet",
        "f_t_001_1.log.parquet",
    ],
)
def test_what_is_no_base_file(name: str) -> None:
    assert parse_base_file_name(name) is None


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (f".{UUID}-0_20261121133036173.log.1_1-619-1204", (f"{UUID}-0", "20261121133036173", 1, (1, 619, 1204), False)),
        (".f_001.log.12", ("f", "001", 12, None, False)),
        (".f_001.archive.2_0-1-2", ("f", "001", 2, (0, 1, 2), False)),
        (".f_001.log.3_0-1-2.cdc", ("f", "001", 3, (0, 1, 2), True)),
    ],
)
def test_log_files(name: str, parts: tuple[str, str, int, tuple[int, ...] | None, bool]) -> None:
    parsed = parse_log_file_name(name)
    assert parsed is not None
    assert (parsed.file_id, parsed.instant_time, parsed.version, parsed.write_token, parsed.is_cdc) == parts


@pytest.mark.parametrize(
    "name",
    [
        "f_001.log.1",
        ".f_001.log",
        ".f_001.log.x",
        ".f_001.log.1_0-1",
        ".f_001.log.1.cdc",
        ".f.log.1",
        ".hoodie_partition_metadata",
        ".f_001.log.1_0-1-2.crc",
    ],
)
def test_what_is_no_log_file(name: str) -> None:
    assert parse_log_file_name(name) is None


@pytest.mark.parametrize("file_format", ["parquet", "orc", "hfile", "lance", "vortex"])
@pytest.mark.parametrize("kind", ["log", "deletes", "delete", "cdc"])
def test_native_log_files(kind: str, file_format: str) -> None:
    name = f"f-0_1-2-3_20250409161256974_7.{kind}.{file_format}"
    assert parse_log_file_name(name) == LogFileName(
        file_id="f-0",
        instant_time="20250409161256974",
        version=7,
        write_token=(1, 2, 3),
        is_cdc=kind == "cdc",
        has_only_deletes=kind.startswith("delete"),
        file_format=file_format,
    )
    assert parse_base_file_name(name) is None
    assert is_data_file(f"a/{name}")


@pytest.mark.parametrize(
    "name",
    [
        "f-0_1-2-3_001.log.parquet",
        "f-0_1-2_001_1.log.parquet",
        ".f-0_1-2-3_001_1.log.parquet",
        "f-0_1-2-3_001_1.archive.parquet",
    ],
)
def test_what_is_no_native_log_file(name: str) -> None:
    assert parse_log_file_name(name) is None


def test_log_files_are_merged_by_instant_then_version_then_token_as_text() -> None:
    names = [
        ".f_001.log.2_9-9-9",
        ".f_001.log.10_0-0-0",
        ".f_002.log.1",
        ".f_002.log.1_0-10-1",
        ".f_002.log.1_0-5-1",
        ".f_002.log.1_0-5-1.cdc",
        ".f_002.log.1_1-0-0",
        ".f_002.log.1_10-0-0",
        ".f_002.log.1_9-0-0",
        "f_1-0-0_003_1.log.parquet",
        "f_1-0-0_003_1.deletes.parquet",
        "f_1-0-0_003_1.cdc.parquet",
        "f_1-0-0_003_2.log.hfile",
    ]
    parsed = [name for name in map(parse_log_file_name, names) if isinstance(name, LogFileName)]
    assert len(parsed) == len(names)
    assert all(one.sort_key < other.sort_key for one, other in itertools.pairwise(parsed))
