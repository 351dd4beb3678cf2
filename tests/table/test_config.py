import pickle
import re
import zlib
from pathlib import Path

import pytest

import hudi_bridge
from hudi_bridge.config import (
    CdcMode,
    MergeMode,
    PartitionFieldKind,
    TableConfig,
    TableType,
    TimelineTimezone,
    read_table_config,
)
from hudi_bridge.errors import CorruptTimelineError, QueryError, TableNotFoundError, UnsupportedTableError
from hudi_bridge.options import READ_AS_RELEASE_KEY, with_read_options
from hudi_bridge.releases import RELEASE_RULES, TABLE_LAYOUTS, Release
from hudi_bridge.storage.storage import Storage
from tests.timeline.timeline_files import make_table, properties


def config_of(folder: Path, **changes: str | None) -> TableConfig:
    return make_table(folder, **changes)[1]


def test_defaults(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert (config.table_path, config.name, config.database_name) == (str(tmp_path), "trips", "")
    assert (config.table_type, config.table_version, config.timeline_layout) == (
        TableType.MERGE_ON_READ,
        9,
        2,
    )
    assert (config.timeline_path, config.archived_path) == (".hoodie/timeline", ".hoodie/timeline/history")
    assert config.record_key_fields == config.ordering_fields == config.partition_fields == ()
    assert config.populates_meta_fields
    assert not config.drops_partition_columns
    assert config.base_file_format == "PARQUET"
    assert config.timeline_timezone is TimelineTimezone.LOCAL
    assert config.merge_mode is config.payload_class is config.create_schema is config.key_generator is None
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_table_of_0_15(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        hoodie__table__version="6",
        hoodie__timeline__layout__version="1",
        hoodie__archivelog__folder="archived",
        hoodie__table__precombine__field="ts",
        hoodie__table__recordkey__fields="id,k2",
        hoodie__table__partition__fields="region, day",
        hoodie__table__keygenerator__class="org.apache.hudi.keygen.ComplexAvroKeyGenerator",
        hoodie__compaction__payload__class="org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        hoodie__compaction__record__merger__strategy="eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        hoodie__payload__delete__field="op",
        hoodie__payload__delete__marker="D",
        hoodie__table__create__schema=r"{\"type\"\:\"record\"}",
    )
    assert (config.timeline_path, config.archived_path) == (".hoodie", ".hoodie/archived")
    assert config.ordering_fields == ("ts",)
    assert config.record_key_fields == ("id", "k2")
    assert config.partition_fields == ("region", "day")
    assert config.partition_field_kinds == (PartitionFieldKind.SIMPLE,) * 2
    assert config.key_generator == "COMPLEX"
    assert config.merge_mode is None
    assert config.merge_strategy_id == "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
    assert config.merge_properties == (
        ("hoodie.payload.delete.field", "op"),
        ("hoodie.payload.delete.marker", "D"),
    )
    assert config.create_schema == '{"type":"record"}'
    assert config.release is Release.V0


def test_a_table_of_version_6_by_1_2(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        hoodie__table__version="6",
        hoodie__timeline__layout__version="1",
        hoodie__timeline__path="timeline",
        hoodie__timeline__history__path="history",
        hoodie__archivelog__folder="history",
        hoodie__table__ordering__fields="ts,seq",
    )
    assert (config.timeline_path, config.archived_path) == (".hoodie", ".hoodie/history")
    assert config.ordering_fields == ("ts", "seq")
    assert config.release is Release.V1_1


def test_a_table_of_version_9(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        hoodie__timeline__layout__version=None,
        hoodie__table__timeline__timezone="UTC",
        hoodie__table__partition__fields="region:SIMPLE,day:TIMESTAMP",
        hoodie__table__keygenerator__type="CUSTOM_AVRO",
        hoodie__keygen__timebased__timezone="UTC",
        hoodie__record__merge__mode="EVENT_TIME_ORDERING",
        hoodie__record__merge__property__hoodie__payload__delete__field="Op",
        hoodie__table__legacy__payload__class="a.B",
        hoodie__table__partial__update__mode="IGNORE_DEFAULTS",
        hoodie__table__cdc__enabled="true",
        hoodie__table__cdc__supplemental__logging__mode="data_before",
        hoodie__table__metadata__partitions="column_stats,files",
    )
    assert config.timeline_layout == 2
    assert config.timeline_timezone is TimelineTimezone.UTC
    assert config.partition_fields == ("region", "day")
    assert config.partition_field_kinds == (PartitionFieldKind.SIMPLE, PartitionFieldKind.TIMESTAMP)
    assert config.key_generator == "CUSTOM"
    assert config.timebased_properties == (("timezone", "UTC"),)
    assert config.merge_mode is MergeMode.EVENT_TIME
    assert config.merge_properties == (("hoodie.payload.delete.field", "Op"),)
    assert (config.legacy_payload_class, config.partial_update_mode) == ("a.B", "IGNORE_DEFAULTS")
    assert (config.cdc_enabled, config.cdc_mode) == (True, CdcMode.DATA_BEFORE)
    assert config.metadata_partitions == ("column_stats", "files")
    assert config.release is Release.V1_1


def test_a_table_that_was_downgraded_to_version_6(tmp_path: Path) -> None:
    layout_1 = {"hoodie__table__version": "6", "hoodie__timeline__layout__version": "1"}
    (tmp_path / "by_10").mkdir()
    by_10 = config_of(tmp_path / "by_10", **layout_1, hoodie__table__initial__version="8")
    assert by_10.release is Release.V1_0
    (tmp_path / "by_12").mkdir()
    by_12 = config_of(tmp_path / "by_12", **layout_1, hoodie__table__format="native")
    assert by_12.release is Release.V1_1


@pytest.mark.parametrize(
    ("version", "text", "release"),
    [
        ("5", "0.12.2", Release.V0),
        ("6", "0.15", Release.V0),
        ("6", "1.0.2", Release.V1_0),
        ("6", " 1.2", Release.V1_1),
        ("8", "1.0", Release.V1_0),
        ("8", "1.1.1", Release.V1_1),
        ("9", "1.10", Release.V1_1),
    ],
)
def test_a_user_says_whose_rules_hold(tmp_path: Path, version: str, text: str, release: Release) -> None:
    config = config_of(tmp_path, hoodie__table__version=version, hoodie__timeline__layout__version=None)
    assert with_read_options(config, {READ_AS_RELEASE_KEY: text}).release is release


@pytest.mark.parametrize(
    ("version", "release", "message"),
    [
        ("6", "newest", "such as 0.15 or 1.2"),
        ("6", "1", "such as 0.15 or 1.2"),
        ("6", "2.0", "such as 0.15 or 1.2"),
        ("8", "0.15", "a release that reads table version 8"),
        ("9", "1.0.2", "a release that reads table version 9"),
    ],
)
def test_releases_that_cannot_be_are_refused(tmp_path: Path, version: str, release: str, message: str) -> None:
    config = config_of(tmp_path, hoodie__table__version=version, hoodie__timeline__layout__version=None)
    with pytest.raises(QueryError, match=message):
        with_read_options(config, {READ_AS_RELEASE_KEY: release})


def test_each_release_has_rules_for_the_tables_that_it_reads() -> None:
    needed = {
        (release, layout.timeline)
        for layout in TABLE_LAYOUTS.values()
        for release in Release
        if release >= layout.oldest_release
    }
    assert set(RELEASE_RULES) == needed


def test_releases_and_table_versions_are_compared_where_their_tables_are() -> None:
    """Everything else asks ``config.rules`` and ``config.layout``; Presto's newest version is not one of ours."""
    package = Path(hudi_bridge.__file__).parent
    comparison = re.compile(r"\b(table_version|release) (<|>|==|!=|is\b|in\b)|\bRelease\.")
    files = (path for path in package.rglob("*.py") if comparison.search(path.read_text()))
    assert {path.relative_to(package).as_posix() for path in files} == {
        "config.py",
        "merge/payloads.py",
        "merge/rules.py",
        "options.py",
        "releases.py",
    }


@pytest.mark.parametrize(("version", "layout"), [("5", "2"), ("6", "2"), ("8", "1"), ("9", "1"), ("9", "0")])
def test_a_layout_that_the_version_does_not_have_is_refused(tmp_path: Path, version: str, layout: str) -> None:
    with pytest.raises(UnsupportedTableError, match=f"{layout} in a table of version {version}"):
        config_of(tmp_path, hoodie__table__version=version, hoodie__timeline__layout__version=layout)


@pytest.mark.parametrize(
    ("class_name", "kind"),
    [
        ("org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator", "TIMESTAMP"),
        ("org.apache.hudi.keygen.GlobalAvroDeleteKeyGenerator", "GLOBAL_DELETE"),
        ("org.apache.spark.sql.hudi.command.SqlKeyGenerator", "SPARK_SQL"),
        ("org.apache.hudi.keygen.BrandNewKeyGenerator", "org.apache.hudi.keygen.BrandNewKeyGenerator"),
        ("com.acme.SimpleKeyGenerator", "com.acme.SimpleKeyGenerator"),
    ],
)
def test_key_generator_by_class(tmp_path: Path, class_name: str, kind: str) -> None:
    assert config_of(tmp_path, hoodie__table__keygenerator__class=class_name).key_generator == kind


def test_the_timestamp_key_generator_makes_timestamp_fields(tmp_path: Path) -> None:
    config = config_of(tmp_path, hoodie__table__keygenerator__type="TIMESTAMP", hoodie__table__partition__fields="ts")
    assert config.partition_field_kinds == (PartitionFieldKind.TIMESTAMP,)


@pytest.mark.parametrize(
    ("changes", "feature"),
    [
        ({"hoodie__table__version": "4"}, "table version"),
        ({"hoodie__table__version": "7"}, "table version"),
        ({"hoodie__table__version": "11"}, "table version"),
        ({"hoodie__table__version": None}, "table version"),
        ({"hoodie__timeline__layout__version": "0"}, "timeline layout"),
        ({"hoodie__table__type": "MERGE_ON_WRITE"}, "table type"),
        ({"hoodie__table__format": "iceberg"}, "table format"),
        ({"hoodie__table__base__file__format": "VORTEX"}, "base file format"),
        ({"hoodie__table__ro__file__format": "AVRO"}, "base file format"),
        ({"hoodie__table__multiple__base__file__formats__enable": "true"}, "base file format"),
        ({"hoodie__record__merge__mode": "LUCK"}, "record merge mode"),
        ({"hoodie__table__partition__fields": "a:MOON"}, "partition field kind"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path, changes: dict[str, str | None], feature: str) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        make_table(tmp_path, **changes)
    assert caught.value.feature == feature
    assert caught.value.supported


def test_what_is_no_table(tmp_path: Path) -> None:
    def reason(name: str) -> str:
        with pytest.raises(TableNotFoundError) as caught:
            read_table_config(Storage.open(str(tmp_path / name)))
        return caught.value.reason

    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.parquet").touch()
    (tmp_path / "file").touch()
    assert reason("absent") == "there is no such folder"
    assert reason("empty") == "the folder is empty"
    assert reason("other") == "the folder holds no .hoodie"
    assert reason("file") == "this is a file, the path of a table is a folder"


def test_properties_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    with pytest.raises(CorruptTimelineError, match="no such file, and no backup"):
        read_table_config(Storage.open(str(tmp_path)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "without hoodie.table.name, hoodie.table.type"),
        (properties()[:40], "without hoodie.table.type"),
        (properties()[:-3], "the end of the file inside a line"),
        (properties(hoodie__table__checksum="1"), "hoodie.table.checksum 1"),
        (properties(hoodie__database__name="other"), "hoodie.table.checksum"),
        (properties(hoodie__table__name=r"\u12"), "the escape"),
        (properties(hoodie__table__version="nine"), "hoodie.table.version=nine"),
        (properties(hoodie__table__version="9" * 5000), "hoodie.table.version=9"),
    ],
)
def test_damaged_properties_fall_back_to_the_backup(tmp_path: Path, text: str, found: str) -> None:
    hoodie = tmp_path / ".hoodie"
    hoodie.mkdir()
    (hoodie / "hoodie.properties").write_text(text)
    storage = Storage.open(str(tmp_path))
    with pytest.raises(CorruptTimelineError, match="hoodie") as caught:
        read_table_config(storage)
    assert found in caught.value.found
    (hoodie / "hoodie.properties.backup").write_text(text)
    with pytest.raises(CorruptTimelineError):
        read_table_config(storage)
    (hoodie / "hoodie.properties.backup").write_text(properties())
    assert read_table_config(storage).name == "trips"


def test_a_backup_stands_in_for_missing_properties(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie" / "hoodie.properties.backup").write_text(properties())
    assert read_table_config(Storage.open(str(tmp_path))).name == "trips"


def test_the_checksum_is_of_database_and_name(tmp_path: Path) -> None:
    checksum = str(zlib.crc32("db.trüps".encode()))
    config = config_of(
        tmp_path,
        hoodie__table__name=r"tr\u00fcps",
        hoodie__database__name="db",
        hoodie__table__checksum=checksum,
    )
    assert config.name == "trüps"


def test_a_table_without_checksum_is_read(tmp_path: Path) -> None:
    assert config_of(tmp_path, hoodie__table__checksum=None).name == "trips"
