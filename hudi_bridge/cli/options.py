"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from hudi_bridge.cli.output import Format

Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table's folder: a path, or a URI (s3://, gs://, abfs://, hdfs://).",
        show_default=False,
    ),
]
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
        help="Only rows of commits that completed later (table versions up to 6: were requested later): a time as for "
        "--as-of, or earliest.",
        show_default=False,
    ),
]
UpTo = Annotated[
    str | None,
    typer.Option("--up-to", metavar="TIME", help="With --after: only rows of commits up to here.", show_default=False),
]
FormatChoice = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        help="Default: by the name of the output file; else table on a terminal, csv in a pipe. "
        "json is one object a line.",
        show_default=False,
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to a file, whole or not at all.", show_default=False),
]
NoClobber = Annotated[
    bool, typer.Option("--no-clobber", help="With --output: keep a file that is there already, and end with an error.")
]
Limit = Annotated[int | None, typer.Option(min=0, help="Not more rows than this.", show_default=False)]
ReadOptimized = Annotated[
    bool, typer.Option("--read-optimized", help="Base files alone, without the changes that are still in logs.")
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="What a table of Hudi 0.x does not say of itself, by Hudi's name: hoodie.payload.delete.field, …marker, "
        "hoodie.datasource.write.record.merger.impls; or hudi_bridge.read.as.release=1.2, the release whose rules "
        "hold. Repeatable.",
        show_default=False,
    ),
]
Payload = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLASS=FILE:NAME",
        help="What stands for a payload of your own: its Java class, a Python file, and the class in it. Repeatable.",
        show_default=False,
    ),
]
