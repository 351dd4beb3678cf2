"""Arguments and options that several commands share, and how they name tables: by path, or by ``--catalog``."""

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

import typer

from hudi_bridge.catalogs.uris import find_in_catalog, is_catalog_uri, uri_in_catalog
from hudi_bridge.cli.output import Format
from hudi_bridge.options import OnFilesGone

Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table's folder: a path, or a URI (s3://, gs://, abfs://, hdfs://).",
        show_default=False,
    ),
]
Columns = Annotated[
    str | None, typer.Option(metavar="A,B", help="Only these columns, in this order.", show_default=False)
]
NoMetaColumns = Annotated[
    bool, typer.Option("--no-meta-columns", help="Leave out Hudi's own columns, unless --columns names them.")
]
CompletionTimes = Annotated[
    bool,
    typer.Option("--completion-times", help="Add a column with the time at which the commit of each row completed."),
]
Where = Annotated[str | None, typer.Option(metavar="SQL", help="Only rows for which this is true.", show_default=False)]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="Read the table as of an instant: 20260131120000000, '2026-01-31 12:00:00' or 2026-01-31.",
        show_default=False,
    ),
]
After = Annotated[
    str | None,
    typer.Option(
        "--after",
        metavar="TIME",
        help="Only rows of commits that completed (table versions up to 6: were requested) after this time; earliest "
        "for all commits.",
        show_default=False,
    ),
]
UpTo = Annotated[
    str | None,
    typer.Option(
        "--up-to", metavar="TIME", help="With --after: only rows of commits up to this time.", show_default=False
    ),
]
FilesGone = Annotated[
    OnFilesGone,
    typer.Option(
        "--on-files-gone",
        help="What to do if the cleaner has removed files before the first row: fail, or read the newest state.",
    ),
]
FormatChoice = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help="table, csv, spreadsheet (csv without formulas), json (an object a line), parquet or arrow. "
        "Default: from the name of the output file, else table on a terminal and csv in a pipe.",
        show_default=False,
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write to a file, which appears when it is complete.", show_default=False
    ),
]
NoClobber = Annotated[bool, typer.Option("--no-clobber", help="With --output: fail if the file exists.")]
Archived = Annotated[
    bool, typer.Option("--archived", help="Also what is on the archived timeline, all of which is read.")
]
Limit = Annotated[int | None, typer.Option(min=0, metavar="N", help="At most this many rows.", show_default=False)]
ReadOptimized = Annotated[bool, typer.Option("--read-optimized", help="Read base files only, without log files.")]
Option = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A read option of docs/options.md, such as hoodie.metadata.enable=false. Repeatable.",
        show_default=False,
    ),
]
Payload = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLASS=FILE:NAME",
        help="The Python class that stands for a Java payload class, or for a merge strategy by its id. Repeatable.",
        show_default=False,
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A setting of the object store: region=eu-west-1, anonymous=true, endpoint_url=URL. "
        "Secrets are better left to the environment. Repeatable.",
        show_default=False,
    ),
]


_catalog: ContextVar[str | None] = ContextVar("catalog", default=None)


def name_tables_as_in(catalog: str | None) -> None:
    """From now on, names are tables in the catalog of this URI; with None, only paths are accepted."""
    _catalog.set(catalog)


def path_of(name: str) -> str:
    """The path or URI of the table that a command was given; a text with a slash is one already.

    Raises:
        QueryError: ``--catalog`` is not the URI of a catalog.
    """
    catalog = _catalog.get()
    return name if catalog is None or "/" in name else uri_in_catalog(catalog, name)


def folder_of(name: str) -> str:
    """The path or URI of the table's folder; a catalog is asked for it.

    Raises:
        QueryError: ``--catalog`` is not the URI of a catalog, or the name is not a table in one.
        TableNotFoundError: the catalog has no such table.
        StorageError: the catalog does not answer.
    """
    path = path_of(name)
    return find_in_catalog(path).location if is_catalog_uri(path) else path
