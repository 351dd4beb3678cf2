"""Compares the rows of a merge-on-read table with and without its logs.

    python examples/demo.py [TABLE]

The default table was written by Apache Hudi 1.2.0 and comes from the archives of the tests. Its rows are also compared
with those that Hudi returned.
"""  # noqa: INP001 - a script

import sys
import tarfile
import tempfile
from pathlib import Path

import duckdb
from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from hudi_bridge import HudiReadError
from hudi_bridge.connectors.duckdb import Attached, attach, quote_identifier

ARCHIVE = Path(__file__).parent.parent / "tests" / "golden" / "a.tar.xz"
CASE = "a_story_v9_120"
WIDTH = 80
COLUMNS_COMPARED = 2
ROWS_SHOWN = 4
VERDICTS = {
    "deleted": "Deleted since, but read optimized still shows them",
    "stale": "Changed since, but read optimized shows the old values",
    "unseen": "Written since, but read optimized does not show them at all",
}

console = Console(width=WIDTH, highlight=False)


def main() -> None:
    """Shows the table given on the command line, or one from the tests."""
    if len(sys.argv) > 1:
        show(sys.argv[1], None)
        return
    with tempfile.TemporaryDirectory(prefix="hudi-bridge-demo-") as folder:
        with tarfile.open(ARCHIVE) as archive:
            members = [one for one in archive.getmembers() if one.name.split("/")[0] == CASE]
            archive.extractall(folder, members, filter="data")
        case = Path(folder) / CASE
        console.print(
            f"A table that Apache Hudi 1.2.0 wrote, from {ARCHIVE.name} of the tests; nothing is kept of it.\n"
        )
        show(str(case / "table"), case / "expected" / "snapshot.parquet")


def show(path: str, answer_of_hudi: Path | None) -> None:
    """Attaches the table to DuckDB and shows queries with their results."""
    with duckdb.connect() as connection:
        trips = attach(connection, path, "trips")
        config = trips.table.config
        if not config.populates_meta_fields:
            sys.exit("demo: rows are compared by _hoodie_record_key, which this table does not store")
        console.rule(f"{config.name}: {config.table_type}, table version {config.table_version}")
        console.print("Updates and deletes lie in log files until they are merged into base files:\n")
        show_query(
            connection,
            """SELECT kind, count(*) AS files, sum(size_bytes) AS bytes
FROM trips_files GROUP BY kind ORDER BY kind""",
        )
        console.print("\nReading the base files alone is quick, and wrong. One row per difference:\n")
        connection.execute(print_sql(difference_view(connection, trips)))
        console.print()
        show_query(connection, "SELECT verdict, count(*) AS rows FROM differences GROUP BY ALL ORDER BY ALL")
        for (verdict,) in connection.execute("SELECT DISTINCT verdict FROM differences ORDER BY 1").fetchall():
            show_rows(connection, verdict, VERDICTS[verdict])
        console.print()
        show_query(
            connection,
            """SELECT (SELECT count(*) FROM trips_ro) AS read_optimized_rows,
       (SELECT count(*) FROM trips)    AS snapshot_rows""",
        )
        if answer_of_hudi is not None:
            compare_with_hudi(connection, answer_of_hudi)


def difference_view(connection: duckdb.DuckDBPyConnection, trips: Attached) -> str:
    """The statement that joins both views, with the columns that differ most."""
    compared = most_different_columns(connection, trips)
    values = "".join(
        f",\n       old.{quote_identifier(name)} AS {quote_identifier('old ' + name)}"
        f",\n       new.{quote_identifier(name)} AS {quote_identifier('new ' + name)}"
        for name in compared
    )
    return f"""CREATE VIEW differences AS
SELECT CASE WHEN new._hoodie_record_key IS NULL THEN 'deleted'
            WHEN old._hoodie_record_key IS NULL THEN 'unseen'
            ELSE 'stale' END AS verdict,
       coalesce(old._hoodie_record_key, new._hoodie_record_key) AS key{values}
FROM trips_ro AS old FULL JOIN trips AS new
  USING (_hoodie_record_key, _hoodie_partition_path)
WHERE old._hoodie_commit_time IS DISTINCT FROM new._hoodie_commit_time"""


def most_different_columns(connection: duckdb.DuckDBPyConnection, trips: Attached) -> list[str]:
    """The columns (without meta columns) in which the two views differ most often."""
    names = [name for name in trips.table.schema.names if not name.startswith("_hoodie_")]
    counts = ", ".join(
        f"count(*) FILTER (old.{quote_identifier(name)} IS DISTINCT FROM new.{quote_identifier(name)})"
        for name in names
    )
    join = "trips_ro AS old JOIN trips AS new USING (_hoodie_record_key, _hoodie_partition_path)"
    found = connection.execute(f"SELECT {counts} FROM {join}").fetchone() or ()
    ranked = sorted(zip(found, range(len(names)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return [names[position] for _, position in ranked[:COLUMNS_COMPARED]]


def show_rows(connection: duckdb.DuckDBPyConnection, verdict: str, meaning: str) -> None:
    """Shows a few differences of one kind."""
    console.print(f"\n[bold]{meaning}[/bold]")
    show_query(
        connection,
        f"""SELECT * EXCLUDE verdict FROM differences
WHERE verdict = '{verdict}' ORDER BY key LIMIT {ROWS_SHOWN}""",
    )


def compare_with_hudi(connection: duckdb.DuckDBPyConnection, answer: Path) -> None:
    """Shows whether the snapshot has the same rows as Hudi on Spark returned."""
    connection.execute(f"CREATE VIEW hudi AS FROM read_parquet('{answer}')")
    console.print("\nWhat did Apache Hudi on Spark return for the same table?\n")
    show_query(
        connection,
        """SELECT (SELECT count(*) FROM hudi) AS rows_of_hudi,
       (SELECT count(*) FROM (FROM trips EXCEPT ALL FROM hudi)) AS extra,
       (SELECT count(*) FROM (FROM hudi EXCEPT ALL FROM trips)) AS missing""",
    )


def show_query(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Shows a query and its result."""
    result = connection.execute(print_sql(query))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, *_ in result.description or ():
        table.add_column(Text(name), no_wrap=True, overflow="ellipsis")
    for row in result.fetchall():
        table.add_row(*(Text("—" if value is None else str(value)) for value in row))
    console.print(table)


def print_sql(statement: str) -> str:
    """Prints a statement and returns it."""
    console.print(Panel(Syntax(statement, "sql", background_color="default", word_wrap=True), border_style="dim"))
    return statement


if __name__ == "__main__":
    try:
        main()
    except (HudiReadError, duckdb.Error) as error:
        sys.exit(f"demo: {error}")
