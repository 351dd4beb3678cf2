"""An example for each command, at the end of its help; tests run them on the tables of ``hudi-bridge demo``."""

EXAMPLES = {
    "": "hudi-bridge demo",
    "demo": "hudi-bridge demo --to tables",
    "info": "hudi-bridge info trips",
    "schema": "hudi-bridge schema trips --history",
    "timeline": "hudi-bridge timeline trips --details",
    "show": "hudi-bridge show trips 20261122081117834 --files",
    "slices": "hudi-bridge slices trips",
    "log": "hudi-bridge log trips",
    "splits": "hudi-bridge splits trips",
    "partitions": "hudi-bridge partitions trips",
    "stats": "hudi-bridge stats trips sizes",
    "compactions": "hudi-bridge compactions trips",
    "clusterings": "hudi-bridge clusterings trips",
    "cleans": "hudi-bridge cleans trips",
    "rollbacks": "hudi-bridge rollbacks trips",
    "savepoints": "hudi-bridge savepoints trips",
    "indexings": "hudi-bridge indexings trips",
    "metadata": "hudi-bridge metadata trips",
    "read": 'hudi-bridge read trips --where "fare > 19" -o fares.parquet',
    "get": "hudi-bridge get trips trip-1 trip-2",
    "explain": "hudi-bridge explain trips --where \"city = 'sf'\"",
    "changes": "hudi-bridge changes trips --after earliest --format json",
    "diff": "hudi-bridge diff trips earliest",
    "sql": 'hudi-bridge sql trips "SELECT city, count(*) FROM t GROUP BY city"',
    "trace": "hudi-bridge trace trips trip-1 --values",
    "doctor": "hudi-bridge doctor lake --severity warning",
    "report": "hudi-bridge report trips --key trip-1 -o report.html",
    "compare": "hudi-bridge compare trips --with hudi",
    "serve iceberg": "hudi-bridge serve iceberg lake --scratch served --port 8181",
    "publish iceberg": "hudi-bridge publish iceberg trips --to iceberg",
    "publish log-records": "hudi-bridge publish log-records trips --to published",
    "trino explain": "hudi-bridge trino explain trips",
    "trino sql": "hudi-bridge trino sql trips --published published",
}
"""Command lines by the name of the command."""


def epilog(name: str) -> str | None:
    """The end of a command's help."""
    example = EXAMPLES.get(name)
    # A bracket would begin markup, and two lines are one paragraph.
    return None if example is None else f"Example: {example}".replace("[", r"\[")
