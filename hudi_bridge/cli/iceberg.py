"""``serve iceberg`` and ``publish iceberg``: Hudi tables for engines that read Iceberg.

Only these commands import the connector, which is slow and needs its own extra. The options of a service may be in a
file of TOML, by their long names; the command line comes before it. It logs to the standard error output, as text or as
one JSON object a line.
"""

import json
import logging
import os
import tomllib
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from hudi_bridge.catalogs.uris import open_catalog
from hudi_bridge.cli import options
from hudi_bridge.cli.opening import load_payloads, note_empty_past, open_table, parse_options, parse_storage_options
from hudi_bridge.cli.terminal import print_note, telling_work
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.lakes.tables import CatalogTables, MergeSettings, MergingByTable, TablesByName
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.errors import QueryError

serve_app = typer.Typer(no_args_is_help=True, help="Serve tables to engines, live.")
Locate = Annotated[
    list[str] | None,
    typer.Option(
        "--locate",
        metavar="OURS=THEIRS",
        help="The URI by which clients reach a folder: /data=local:///, /mnt/lake=s3://lake. Repeatable.",
        show_default=False,
    ),
]
ListsAsStored = Annotated[
    bool,
    typer.Option(
        "--lists-as-stored",
        help="Leave base files where they are though DuckDB or Spark misread their lists or maps; Trino reads them.",
    ),
]
RewriteAbove = Annotated[
    float | None,
    typer.Option(
        metavar="PERCENT",
        help="Rewrite file slices whose logs replace or delete more than this share of the base rows.",
        show_default=False,
    ),
]
ForClient = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="presto",
        help="Write for this client: base files that it would misread are written anew, times are numbers.",
        show_default=False,
    ),
]
CutTimes = Annotated[
    bool, typer.Option("--cut-times", help="With --for presto: timestamps as such, though Presto cuts microseconds.")
]
FormatVersionOption = Annotated[
    int,
    typer.Option(
        "--format-version",
        metavar="N",
        min=2,
        max=3,
        help="The version of Iceberg's table format; 3 has deletion vectors instead of position-delete files.",
    ),
]
Keep = Annotated[int, typer.Option(min=1, metavar="N", help="How many snapshots to list.")]
KeepMinutes = Annotated[
    float, typer.Option(min=0, metavar="MINUTES", help="How long to keep files that no snapshot refers to any more.")
]
Builds = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="How many file slices to build at once.", show_default="one a core"),
]
_SECTIONS = ("reader", "oidc", "credentials")


def read_config(path: Path | None) -> Mapping[str, Any]:
    """The content of a file; nothing without a file.

    Raises:
        QueryError: the file cannot be read, or is not TOML.
    """
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise QueryError("--config", f"{path}: {error}", "a file of TOML") from error


def use_config(context: typer.Context, path: Path | None, sections: Collection[str]) -> None:
    """Make the options of a file the defaults of the command; tables of the names ``sections`` are not options.

    Raises:
        QueryError: the file cannot be read, or has an option that the command does not.
    """
    parameters = {name.replace("_", "-"): parameter for name, parameter in _parameters(context).items()}
    defaults: dict[str, Any] = {}
    for name, value in read_config(path).items():
        if name in sections:
            continue
        parameter = parameters.get(name)
        if parameter is None:
            raise QueryError(
                "--config", f"{path} with {name!r}", f"one of {', '.join(sorted((*parameters, *sections)))}"
            )
        is_list = parameter.multiple if parameter.param_type_name == "option" else parameter.nargs < 0
        if isinstance(value, dict) or isinstance(value, list) != is_list:
            expected = "a list" if is_list else "one value"
            raise QueryError("--config", f"{path} with {name} = {value!r}", expected)
        defaults[parameter.name] = value
    context.default_map = {**(context.default_map or {}), **defaults}


def _parameters(context: typer.Context) -> dict[str, Any]:
    """The parameters of the command by their name in the command line, but for ``--config`` and ``--help``."""
    by_option: dict[str, Any] = {}
    for parameter in context.command.params:
        if parameter.is_eager or parameter.name is None:
            continue
        option = next((name for name in parameter.opts if name.startswith("--")), parameter.name)
        by_option[option.removeprefix("--")] = parameter
    return by_option


class LogFormat(StrEnum):
    """The values of ``--log-format``."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The values of ``--log-level``."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


class JsonLines(logging.Formatter):
    """A JSON object for each record: time (UTC), level, logger, thread, message, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_to_standard_error(log_format: LogFormat, level: LogLevel) -> None:
    """Have this package log at a level, and all others from warnings on."""
    handler = logging.StreamHandler()
    is_json = log_format is LogFormat.JSON
    handler.setFormatter(JsonLines() if is_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("hudi_bridge").setLevel(level.name)


def _use_config(context: typer.Context, path: Path | None) -> Path | None:
    use_config(context, path, _SECTIONS)
    return path


@serve_app.command("iceberg")
def serve_iceberg(
    *,
    root: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ROOT]...", help="A folder of tables: ROOT/table, ROOT/namespace/table."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A table by name: sales.orders=s3://orders.", show_default=False),
    ] = None,
    from_catalog: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="URI",
            help="In place of folders, the Hudi tables of a catalog: hive://HOST:PORT, glue://REGION or "
            "rest:https://HOST.",
            show_default=False,
        ),
    ] = None,
    scratch: Annotated[
        str,
        typer.Option(
            metavar="FOLDER",
            help="The path or URI of a folder to write to. If it is missing, it is made for this user alone: make it "
            "beforehand for engines of other users.",
        ),
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen on; all but loopback addresses need --token-file.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="The port to listen on; 0 for any free port.")
    ] = 8181,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the bearer token that clients must send.", show_default=False),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A read option of docs/options.md, of all tables, or of one, as orders:NAME=VALUE. Repeatable.",
            show_default=False,
        ),
    ] = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    lists_as_stored: ListsAsStored = False,
    rewrite_above: RewriteAbove = None,
    format_version: FormatVersionOption = 2,
    locate: Locate = None,
    keep: Keep = 20,
    keep_minutes: KeepMinutes = 60,
    builds: Builds = None,
    watch: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Build snapshots of new commits ahead; how often to check for them.",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="How lines of the log look.")] = LogFormat.TEXT,
    log_level: Annotated[
        LogLevel, typer.Option(metavar="LEVEL", help="What is logged: debug (every request), info or warning.")
    ] = LogLevel.INFO,
    tls_certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A certificate in PEM, to be reached by HTTPS.", show_default=False),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The private key of the certificate.", show_default=False)
    ] = None,
    requests_per_second: Annotated[
        float | None,
        typer.Option(min=0.01, metavar="N", help="How many requests of each reader are answered.", show_default=False),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="A proxy, or a network of proxies, whose X-Forwarded-For names the client. Repeatable.",
            show_default=False,
        ),
    ] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log each request, and whose it is.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of TOML with any of these options, readers and credentials; the command line comes before it.",
            show_default=False,
            is_eager=True,
            callback=_use_config,
        ),
    ] = None,
) -> None:
    """Show every Hudi table as a live Iceberg table, through an Iceberg REST catalog."""
    if (tls_certificate is None) != (tls_key is None):
        raise QueryError("TLS", "one of two files", "--tls-certificate and --tls-key")
    server, rewriting, document = (
        _later("hudi_bridge.service.server"),
        _later("hudi_bridge.connectors.iceberg.compatibility").Rewriting,
        read_config(config),
    )
    log_to_standard_error(log_format, log_level)
    tables = _tables(root or [], table or [], from_catalog, parse_storage_options(storage_option))
    service = server.IcebergService(
        server.ServiceOptions(
            tables=tables,
            merging=MergingByTable.parse(option or [], load_payloads(payload), tables.find_by_name),
            rewriting=rewriting.of(lists_as_stored=lists_as_stored, above_percent=rewrite_above),
            format_version=_later("hudi_bridge.connectors.iceberg.compatibility").FormatVersion.of(format_version),
            scratch=Scratch.open(scratch, is_private=True),
            locations=Locations.of(tuple(locate or ())),
            host=host,
            port=port,
            token=server.read_token(token_file),
            builds=builds or _cores(),
            keep=keep,
            keep_seconds=60 * keep_minutes,
            watch_seconds=watch,
            access=_later("hudi_bridge.service.config").access_of(document),
            vending=_later("hudi_bridge.service.config").vending_of(document),
            tls=server.Tls(certificate=tls_certificate, key=tls_key) if tls_certificate and tls_key else None,
            requests_per_second=requests_per_second,
            access_log=access_log,
            proxies=tuple(proxy or ()),
        )
    )
    print_note(f"Iceberg REST catalog at {service.url}; Ctrl-C ends it")
    service.run()


def _tables(
    roots: list[str], tables: list[str], catalog: str | None, storage_options: Mapping[str, str]
) -> TablesByName:
    if catalog is None:
        return Roots.of(roots, tables, storage_options)
    if roots or tables:
        raise QueryError("--from", "folders or tables as well", "a catalog alone")
    return CatalogTables(open_catalog(catalog), storage_options)


def publish_iceberg(
    *,
    table: options.Table,
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="The path or URI of the Iceberg table's folder.")],
    as_of: options.AsOf = None,
    read_optimized: options.ReadOptimized = False,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    lists_as_stored: ListsAsStored = False,
    rewrite_above: RewriteAbove = None,
    for_client: ForClient = None,
    cut_times: CutTimes = False,
    format_version: FormatVersionOption = 2,
    locate: Locate = None,
    keep: Keep = 20,
    keep_minutes: KeepMinutes = 60,
    builds: Builds = None,
) -> None:
    """Write a Hudi table as an Iceberg table, which refers to the base files where they are."""
    rewriting = _later("hudi_bridge.connectors.iceberg.compatibility").Rewriting.of(
        lists_as_stored=lists_as_stored, above_percent=rewrite_above, client=for_client, cut_times=cut_times
    )
    opened = open_table(table, option, payload, storage_option)
    note_empty_past(opened, as_of)
    with telling_work("snapshot"):
        published = _later("hudi_bridge.connectors.iceberg.publish").publish_table(
            opened.storage,
            Scratch.open(to),
            locations=Locations.of(tuple(locate or ())),
            builds=builds or _cores(),
            merging=MergeSettings(options=parse_options(option), payloads=load_payloads(payload)),
            query_type=QueryType.READ_OPTIMIZED if read_optimized else opened.query_type,
            as_of=as_of,
            rewriting=rewriting,
            format_version=_later("hudi_bridge.connectors.iceberg.compatibility").FormatVersion.of(
                format_version, rewriting.client
            ),
            keep=keep,
            keep_seconds=60 * keep_minutes,
        )
    typer.echo(published.metadata_location)
    built, reused = published.slices_built, published.slices_reused
    print_note(f"as of {published.instant}: {built:,} file slices built, {reused:,} unchanged")
    for note in published.notes:
        print_note(note)


def _later(module: str) -> Any:  # noqa: ANN401 - a module
    return import_module(module)


def _cores() -> int:
    return os.cpu_count() or 1
