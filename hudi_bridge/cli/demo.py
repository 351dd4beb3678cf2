"""``demo``: unpacks the sample tables, and shows what one of them says with its logs, and what without."""

from typing import Annotated

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from hudi_bridge import samples
from hudi_bridge.connectors.duckdb import attach

_WIDTH = 80
_FILES = """SELECT kind, count(*) AS files, sum(size_bytes) AS bytes
FROM trips_files GROUP BY kind ORDER BY kind"""
_DIFFERENCES = """CREATE VIEW differences AS
SELECT CASE WHEN now.id IS NULL THEN 'deleted' ELSE 'changed' END AS since,
       old.id, old.fare AS old_fare, now.fare, old.ts AS old_ts, now.ts
FROM trips_ro AS old LEFT JOIN trips AS now USING (id, city)
WHERE old._hoodie_commit_time IS DISTINCT FROM now._hoodie_commit_time"""
_ROWS = "SELECT * FROM differences ORDER BY ALL"
_COUNTS = """SELECT (SELECT count(*) FROM trips_ro) AS read_optimized_rows,
       (SELECT count(*) FROM trips)    AS snapshot_rows"""
_COMPARISON = """SELECT (SELECT count(*) FROM hudi) AS rows_of_hudi,
       (SELECT count(*) FROM (FROM trips EXCEPT ALL FROM hudi)) AS extra,
       (SELECT count(*) FROM (FROM hudi EXCEPT ALL FROM trips)) AS missing"""
_console = Console(width=_WIDTH, highlight=False)


def demo(
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="FOLDER", help="Put the tables here. Those that are here already stay.")
    ] = "hudi-bridge-demo",
) -> None:
    """Unpack small tables that Hudi wrote, and show what one says with its logs, and what without.

    In their folder, the examples of the documentation work as printed.
    """
    names = samples.unpack(to)
    with duckdb.connect() as connection:
        config = attach(connection, samples.trips(to), "trips").table.config
        connection.register("hudi", pq.read_table(pa.BufferReader(samples.answer_of_hudi("trips"))))
        _console.rule(f"{config.name}: {config.table_type}, table version {config.table_version}")
        _console.print("Updates and deletes lie in log files until they are merged into base files:\n")
        _show(connection, _FILES)
        _console.print("\nReading the base files alone is quick, and wrong. One row per difference:\n")
        _show(connection, _DIFFERENCES)
        _show(connection, _ROWS)
        _console.print()
        _show(connection, _COUNTS)
        _console.print("\nWhat did Apache Hudi on Spark return for the same table?\n")
        _show(connection, _COMPARISON)
    _console.print(f"\nThe tables are in {to}: {', '.join(names)}. Try:\n", markup=False)
    _console.print(f"  cd {to}", "  hudi-bridge read trips", "  hudi-bridge --help", sep="\n", markup=False)


def _show(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Prints a statement and its result, if it has rows."""
    _console.print(Panel(Syntax(statement, "sql", background_color="default", word_wrap=True), border_style="dim"))
    result = connection.execute(statement)
    rows = result.fetchall()
    if rows:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name, *_ in result.description or ():
            table.add_column(Text(name), no_wrap=True, overflow="ellipsis")
        for row in rows:
            table.add_row(*(Text("—" if value is None else str(value)) for value in row))
        _console.print(table)
