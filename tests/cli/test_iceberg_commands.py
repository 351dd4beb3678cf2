import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from hudi_bridge.common.imports import how_to_install
from hudi_bridge.service.access import Reader
from hudi_bridge.service.server import IcebergService, ServiceOptions
from tests.cli.conftest import Outcome
from tests.support.golden_cases import golden_table

Call = Callable[..., Outcome]


def test_publish_prints_the_metadata_file(hudi_bridge: Call, story: str, tmp_path: Path) -> None:
    arguments = ("publish", "iceberg", story, "--to", str(tmp_path / "story"))
    first = hudi_bridge(*arguments)
    assert first.text == f"file://{tmp_path}/story/metadata/v1.metadata.json\n"
    assert "as of 20261121133045879: 5 file slices built, 0 unchanged" in first.err
    assert StaticTable.from_metadata(first.text.strip()).scan().to_arrow().num_rows == 65
    older = hudi_bridge(*arguments, "--as-of", "20261121133031439")
    assert StaticTable.from_metadata(older.text.strip()).scan().to_arrow().num_rows == 60
    stale = hudi_bridge("publish", "iceberg", story, "--read-optimized", "--to", str(tmp_path / "stale"))
    assert StaticTable.from_metadata(stale.text.strip()).scan().to_arrow().num_rows == 69


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "{story}/views"), "lies in the table"),
        (("--to", "{tmp}/x", "--as-of", "yesterday"), "--as-of"),
        (("--to", "{tmp}/x", "--locate", "/data"), "--locate"),
        (("--to", "nonsense://x"), "no file system"),
        (("--to", "{tmp}/x", "--for", "hive"), "--for"),
        (("--to", "{tmp}/x", "--cut-times"), "--cut-times"),
        (("--to", "{tmp}/x", "--format-version", "4"), "--format-version"),
        (("--to", "{tmp}/x", "--format-version", "3", "--for", "presto"), "--format-version"),
    ],
)
def test_publish_refuses(hudi_bridge: Call, story: str, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    filled = [option.format(story=story, tmp=tmp_path) for option in options]
    outcome = hudi_bridge("publish", "iceberg", story, *filled)
    assert outcome.code == 2
    assert message in outcome.err


def test_publishing_again_keeps_the_version_of_the_format(hudi_bridge: Call, story: str, tmp_path: Path) -> None:
    arguments = ("publish", "iceberg", story, "--to", str(tmp_path / "story"))
    assert StaticTable.from_metadata(hudi_bridge(*arguments).text.strip()).format_version == 2
    newer = StaticTable.from_metadata(hudi_bridge(*arguments, "--format-version", "3").text.strip())
    assert (newer.format_version, newer.scan().to_arrow().num_rows) == (3, 65)
    older = hudi_bridge(*arguments)
    assert (older.code, "published in version 3" in older.err) == (2, True)


def test_publish_says_how_many_base_files_are_written_anew(hudi_bridge: Call, tmp_path: Path) -> None:
    arguments = ("publish", "iceberg", str(golden_table("b_sql_update_0150")), "--to", str(tmp_path / "published"))
    for options in ((), ("--for", "presto")):
        published = hudi_bridge(*arguments, *options)
        assert "2 base files written anew, as DuckDB 1.5 or Spark would misread lists or maps" in published.err
        assert "--lists-as-stored" in published.err
    as_stored = hudi_bridge(*arguments, "--lists-as-stored")
    assert "written anew" not in as_stored.err
    assert "DuckDB 1.5 or Spark: misreads 2 base files (lists of two levels)" in as_stored.err
    for_presto = hudi_bridge(*arguments, "--lists-as-stored", "--for", "presto")
    assert "lists" not in for_presto.err


def test_publish_says_who_misreads_the_table(hudi_bridge: Call, tmp_path: Path) -> None:
    table = str(golden_table("f_types_120"))
    published = hudi_bridge("publish", "iceberg", table, "--to", str(tmp_path / "others"))
    assert "Presto 0.287: reads no table with a timestamp with time zone (tm)" in published.err
    assert "--for presto mends this" in published.err
    for_presto = hudi_bridge("publish", "iceberg", table, "--to", str(tmp_path / "presto"), "--for", "presto")
    assert "mends this" not in for_presto.err
    assert "for Presto, these timestamps are numbers of microseconds since 1970 (--cut-times): tm" in for_presto.err
    cut = hudi_bridge("publish", "iceberg", table, "--to", str(tmp_path / "cut"), "--for", "presto", "--cut-times")
    assert "Presto cuts these timestamps to milliseconds: tm" in cut.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "a folder of tables, or tables by name"),
        (("/tmp", "--host", "0.0.0.0"), "--token-file"),
        (("/tmp", "--token-file", "/nowhere/token"), "cannot be read"),
        (("--table", "x"), "--table"),
        (("/tmp", "--port", "70000"), "65535"),
        (("/tmp", "--format-version", "1"), "--format-version"),
        (("/tmp", "--tls-key", "/nowhere/key"), "--tls-certificate"),
        (("/tmp", "--tls-key", "/nowhere/key", "--tls-certificate", "/nowhere/cert"), "TLS"),
        (("/tmp", "--config", "/nowhere/config"), "--config"),
    ],
)
def test_serve_refuses(hudi_bridge: Call, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    outcome = hudi_bridge("serve", "iceberg", *options, "--scratch", str(tmp_path / "scratch"))
    assert outcome.code == 2
    assert message in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "iceberg", "{tmp}", "/nowhere", "--scratch", "{tmp}/x"),
        ("serve", "iceberg", "--table", "sales.orders=/nowhere", "--scratch", "{tmp}/x"),
        ("publish", "iceberg", "/nowhere", "--to", "{tmp}/x"),
        ("publish", "log-records", "/nowhere", "--to", "{tmp}/x"),
        ("trino", "sql", "/nowhere", "--published", "{tmp}/x"),
        ("trino", "explain", "/nowhere"),
    ],
)
def test_what_is_not_there_is_named_at_once(hudi_bridge: Call, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    outcome = hudi_bridge(*(argument.format(tmp=tmp_path) for argument in arguments))
    assert (outcome.code, outcome.text) == (1, "")
    assert outcome.err == "hudi-bridge: /nowhere: not a Hudi table: there is no such folder\n"
    assert not list(tmp_path.iterdir())


def test_a_root_that_is_a_file_is_named_at_once(hudi_bridge: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = hudi_bridge("serve", "iceberg", str(tmp_path / "file"), "--scratch", str(tmp_path / "x"))
    assert outcome.code == 1
    assert "/file: not a Hudi table: it is no folder" in outcome.err


def test_publishing_what_was_there_before_the_first_commit_says_so(
    hudi_bridge: Call, story: str, tmp_path: Path
) -> None:
    outcome = hudi_bridge("publish", "iceberg", story, "--to", str(tmp_path / "x"), "--as-of", "2020-01-01")
    assert outcome.code == 0
    assert "as of 20200101000000000: 0 file slices built" in outcome.err
    assert "the first commit on the timeline is 20261121133031439" in outcome.err


def test_a_missing_extra_is_named(
    hudi_bridge: Call, story: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("hudi_bridge.connectors.iceberg")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    outcome = hudi_bridge("publish", "iceberg", story, "--to", str(tmp_path / "x"))
    assert outcome.code == 1
    assert how_to_install("iceberg") in outcome.err


@pytest.mark.parametrize(
    ("options", "message"),
    [(("{tmp}", "--from", "hive://metastore"), "a catalog alone"), (("--from", "{tmp}"), "expected hive://HOST:PORT")],
)
def test_serve_refuses_a_catalog(hudi_bridge: Call, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    filled = [option.format(tmp=tmp_path) for option in options]
    outcome = hudi_bridge("serve", "iceberg", *filled, "--scratch", str(tmp_path / "scratch"))
    assert outcome.code == 2
    assert message in outcome.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root = [", "a file of TOML"),
        ("wrong = 1", "one of access-log, builds"),
        ("config = 'other'", "'config'"),
        ("root = '/tmp'", "a list"),
        ("port = [1]", "one value"),
        ("port = 'http'", "Invalid value"),
        ("log-level = 'loud'", "debug"),
        ("[port]", "one value"),
        ("host = '0.0.0.0'\nroot = ['/tmp']", "--token-file"),
        ("root = ['/tmp']\n[[reader]]\nname = 'x'", "client-secret-file"),
        ("root = ['/tmp']\n[oidc]\nissuer = 'https://example.org'", "oidc.audience"),
        ("root = ['/tmp']\n[[credentials]]\nkind = 'sts'", "credentials.prefix"),
        ("root = ['/tmp']\n[[credentials]]\nkind = 'none'\nprefix = 's3://lake'", "no readers"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(
    hudi_bridge: Call, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "config.toml").write_text(text)
    config = str(tmp_path / "config.toml")
    outcome = hudi_bridge("serve", "iceberg", "--scratch", str(tmp_path / "scratch"), "--config", config)
    assert outcome.code == 2
    assert message in outcome.err


def test_a_configuration_has_all_options_and_the_command_line_comes_before_it(
    hudi_bridge: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "token").write_text("open sesame")
    (tmp_path / "config.toml").write_text(
        f"""
        root = ["{tmp_path}/lake"]
        scratch = "{tmp_path}/scratch"
        host = "0.0.0.0"
        port = 0
        locate = ["/data=local:///"]
        watch = 7.5
        keep = 3
        lists-as-stored = true
        log-format = "json"
        access-log = true
        requests-per-second = 5
        [[reader]]
        name = "eu"
        token-file = "{tmp_path}/token"
        namespaces = ["sales.eu"]
        [[credentials]]
        prefix = "s3://lake"
        kind = "static"
        region = "eu-west-1"
        access-key-id-file = "{tmp_path}/token"
        secret-access-key-file = "{tmp_path}/token"
        """
    )
    given: list[ServiceOptions] = []

    def run(service: IcebergService) -> None:
        given.append(service._options)
        service._socket.close()

    monkeypatch.setattr(IcebergService, "run", run)
    outcome = hudi_bridge("serve", "iceberg", "--config", str(tmp_path / "config.toml"), "--keep", "4")
    assert outcome.code == 0, outcome.err
    (options,) = given
    assert (options.host, options.watch_seconds, options.keep, options.access_log) == ("0.0.0.0", 7.5, 4, True)
    assert (options.requests_per_second, options.rewriting.lists_as_stored) == (5.0, True)
    assert options.access is not None
    assert options.access.tokens == {"open sesame": Reader.of("eu", ["sales.eu"])}
    assert options.vending is not None
    assert [rule.prefix for rule in options.vending.rules] == ["s3://lake"]
