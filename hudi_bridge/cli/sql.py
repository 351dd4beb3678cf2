"""``sql``: SQL over a table, from the command line, a pipe or a prompt."""

import sys
from typing import Annotated

import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import note_empty_past, open_table, rows_look
from hudi_bridge.cli.output import Destination, write_rows
from hudi_bridge.cli.prompt import Prompt, iter_statements
from hudi_bridge.cli.session import open_session


def sql(
    table: options.Table,
    statement: Annotated[
        str | None,
        typer.Argument(
            metavar="[SQL]",
            help="The statement to run; without it, statements come from a prompt or a pipe.",
            show_default=False,
        ),
    ] = None,
    *,
    as_of: options.AsOf = None,
    option: options.Option = None,
    payload: options.Payload = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Run SQL on the table, which is called t and by its own name."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload)
    note_empty_past(opened, as_of)
    look = rows_look(opened)
    with open_session(opened, as_of) as session:

        def run(text: str) -> None:
            session.run(text, lambda rows: write_rows(rows, destination, look=look))

        if statement is not None:
            run(statement)
        elif sys.stdin.isatty():
            Prompt(session, run).ask_until_end()
        else:
            for text in iter_statements(sys.stdin):
                run(text)
