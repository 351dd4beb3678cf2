"""Times queries in Trino on each route to a table's rows: ``python -m benchmarks.trino standard``.

One server runs all queries, the routes in turns. The baseline is Trino's Hive connector on the base files alone, whose
answer is stale. The ratio of any other route is void unless its answer is that of a snapshot read with Arrow.
"""

import argparse
import math
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.compute as pc

from benchmarks.adding_payload import AddingPayload
from benchmarks.copies import with_payload
from benchmarks.idle import wait_until_idle
from benchmarks.make_tables import default_cache, make_table
from benchmarks.results_folder import keep, today
from benchmarks.scenarios import QTY_VALUES, SCENARIOS, Scenario
from benchmarks.service_process import cpu_seconds
from benchmarks.trino_routes import (
    Publishing,
    Relation,
    base_files,
    iceberg_table,
    sql_view,
)
from hudi_bridge import HudiTable
from tests.integration import trino_download
from tests.integration.trino_catalogs import hive_properties
from tests.integration.trino_server import Trino, running_server

BASELINE, CACHED, FIRST = "base files, Hive", "Iceberg, cached", "Iceberg, first load"
WHOLE, FIRST_WHOLE, VIEW = "Iceberg, slices whole, cached", "Iceberg, slices whole, first load", "SQL view"
BLOCKS, PAYLOAD = "SQL view, log blocks", "SQL view, payload in Python"
ROUTES = (BASELINE, CACHED, FIRST, WHOLE, FIRST_WHOLE, VIEW, BLOCKS, PAYLOAD)
PAYLOAD_CLASS = "com.acme.Adding"
REWRITING = ("--rewrite-above", "5")
AGGREGATE, FILTER = "aggregate of four columns", "filter, 1 % of rows"
QUERIES = {
    AGGREGATE: "SELECT part, count(*), sum(qty), max(ts), avg(price) FROM {} GROUP BY part ORDER BY part",
    FILTER: f"SELECT count(*), sum(ts) FROM {{}} WHERE qty < {QTY_VALUES // 100}",
}
FIRST_LOAD_WARM_UPS = 2
SLOW = {BLOCKS: (3, 1), PAYLOAD: (12, 8)}
"""How often routes that take 10 seconds and more run, and how many of these runs are not measured."""

Answer = Sequence[Sequence[Any]]
Answers = Mapping[tuple[str, str], Answer]
"""By query and route."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One query: wall-clock seconds, and seconds of CPU in Trino and in the service."""

    wall: float
    trino: float
    service: float
    answer: Answer

    @property
    def cpu(self) -> float:
        """The seconds of CPU of both."""
        return self.trino + self.service


Runs = Mapping[tuple[str, str], Sequence[Run]]
"""By query and route."""


def run(trino: Trino, relation: Relation, query: str) -> Run:
    with closing(trino.connect()) as connection:
        cursor = connection.cursor()
        for statement in relation.session:
            cursor.execute(statement).fetchall()
        wait_until_idle(partial(cpu_seconds, trino.pid))
        before = cpu_seconds(trino.pid), cpu_seconds(relation.service)
        start = time.perf_counter()
        answer = cursor.execute(QUERIES[query].format(relation.name)).fetchall()
        wall = time.perf_counter() - start
    after = cpu_seconds(trino.pid), cpu_seconds(relation.service)
    return Run(wall=wall, trino=after[0] - before[0], service=after[1] - before[1], answer=answer)


def open_with_payload(path: Path) -> HudiTable:
    """The same table with a payload of the user's, which reads a copy of its files."""
    return HudiTable.open(str(with_payload(path, PAYLOAD_CLASS)), payloads={PAYLOAD_CLASS: AddingPayload()})


def answers_of_arrow(path: Path) -> Answers:
    """The expected answers of all queries."""
    merged, by_payload = _answers_of_arrow(HudiTable.open(str(path))), _answers_of_arrow(open_with_payload(path))
    return {
        (query, route): (by_payload if route == PAYLOAD else merged)[query] for query in QUERIES for route in ROUTES
    }


def _answers_of_arrow(table: HudiTable) -> Mapping[str, Answer]:
    rows = table.snapshot().to_table(columns=["part", "qty", "ts", "price"])
    groups = rows.group_by("part").aggregate([([], "count_all"), ("qty", "sum"), ("ts", "max"), ("price", "mean")])
    few = rows.filter(pc.field("qty") < QTY_VALUES // 100)
    return {
        AGGREGATE: [list(row.values()) for row in groups.sort_by("part").to_pylist()],
        FILTER: [[few.num_rows, pc.sum(few["ts"]).as_py()]],
    }


def is_same(answer: Answer, expected: Answer) -> bool:
    """Whether two answers are equal, apart from the rounding of floats, whose order of addition may differ."""
    pairs = [pair for one, other in zip(answer, expected, strict=False) for pair in zip(one, other, strict=True)]
    return len(answer) == len(expected) and all(
        math.isclose(one, other, rel_tol=1e-12) if isinstance(other, float) else one == other for one, other in pairs
    )


def measure(path: Path, folder: Path, rounds: int, warm_ups: int) -> tuple[Runs, Publishing]:
    table = HudiTable.open(str(path))
    runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
    with ExitStack() as stack:
        trino = stack.enter_context(running_server(folder / "server"))
        hive = stack.enter_context(trino.catalog("hive", "hive", hive_properties(folder / "metastore")))
        view, publishing = sql_view(trino, hive, table, folder / "published", "sql_view")
        cached = stack.enter_context(iceberg_table(trino, path, folder / "scratch"))
        whole = stack.enter_context(iceberg_table(trino, path, folder / "scratch-whole", *REWRITING))
        blocks, _ = sql_view(trino, hive, table, folder / "published-blocks", "view_of_blocks", unmerged=True)
        payload, _ = sql_view(trino, hive, open_with_payload(path), folder / "published-payload", "view_of_payload")
        relations = {BASELINE: base_files(trino, hive, table), CACHED: cached, WHOLE: whole, VIEW: view}
        for number in range(warm_ups + rounds):
            latest = {
                (query, route): run(trino, relation, query)
                for query in QUERIES
                for route, relation in relations.items()
            }
            if number >= warm_ups - FIRST_LOAD_WARM_UPS:
                for route, options in ((FIRST, ()), (FIRST_WHOLE, REWRITING)):
                    with iceberg_table(trino, path, folder / f"{route} {number}", *options) as unbuilt:
                        latest[AGGREGATE, route] = run(trino, unbuilt, AGGREGATE)
            if number >= warm_ups:
                for key, one in latest.items():
                    runs[key].append(one)
        for route, relation in ((BLOCKS, blocks), (PAYLOAD, payload)):
            times, before = SLOW[route]
            runs[AGGREGATE, route] = [run(trino, relation, AGGREGATE) for _ in range(times)][before:]
    return runs, publishing


def markdown(scenario: Scenario, runs: Runs, publishing: Publishing, expected: Answers, about: Sequence[str]) -> str:
    """The page of one scenario; a ratio is void where the answer is not that of the snapshot."""
    lines = [f"# {scenario.name} in Trino, {today()}", ""]
    lines += [
        "| query | route | wall, s | CPU of Trino, s | CPU of the service, s | wall, to baseline | CPU, to baseline |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for query in QUERIES:
        for route in ROUTES:
            if (query, route) in runs:
                lines.append(_line(query, route, runs, expected[query, route]))
    lines += ["", *about, f"- {_publishing(publishing)}", ""]
    return "\n".join(lines)


def _line(query: str, route: str, runs: Runs, expected: Answer) -> str:
    own, baseline = runs[query, route], runs[query, BASELINE]
    service = "" if route in (BASELINE, VIEW, BLOCKS, PAYLOAD) else _seconds([one.service for one in own])
    ratios = [
        _ratio([one.wall for one in own], [one.wall for one in baseline]),
        _ratio([one.cpu for one in own], [one.cpu for one in baseline]),
    ]
    if route == BASELINE:
        # The base files alone have none of the updates and deletes.
        ratios = ["stale" if not is_same(own[0].answer, expected) else "1.00x"] * 2
    elif not all(is_same(one.answer, expected) for one in own):
        ratios = ["void"] * 2
    wall, trino = _seconds([one.wall for one in own]), _seconds([one.trino for one in own])
    return f"| {query} | {route} | {wall} | {trino} | {service} | {' | '.join(ratios)} |"


def _seconds(values: Sequence[float]) -> str:
    return f"{min(values):.3f} ({statistics.median(values):.3f})"


def _ratio(own: Sequence[float], baseline: Sequence[float]) -> str:
    return f"{min(own) / min(baseline):.2f}x ({statistics.median(own) / statistics.median(baseline):.2f}x)"


def _publishing(publishing: Publishing) -> str:
    return (
        f"publishing for the SQL view, which is not in its times: {publishing.seconds:.2f} s, "
        f"{publishing.cpu_seconds:.2f} s of CPU, {publishing.size_bytes / 1e6:.1f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time queries in Trino over the routes to a table's rows.")
    parser.add_argument("scenarios", nargs="+", choices=SCENARIOS)
    parser.add_argument("--rounds", type=int, default=11, help="measured runs of each query (default: %(default)s)")
    parser.add_argument("--warm-ups", type=int, default=40, help="runs before, while code is compiled (default: 40)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="write the page into results/")
    options = parser.parse_args()
    for name in options.scenarios:
        scenario = SCENARIOS[name]
        table = make_table(scenario, options.cache.resolve())
        load = os.getloadavg()[0]
        with TemporaryDirectory(prefix="hudi-bridge-trino-") as folder:
            runs, publishing = measure(table, Path(folder), options.rounds, options.warm_ups)
        expected = answers_of_arrow(table)
        about = _about(scenario, options.rounds, options.warm_ups, load)
        page = markdown(scenario, runs, publishing, expected, about)
        if options.keep:
            keep(page, f"{name}-trino")
        print(page, flush=True)


def _about(scenario: Scenario, rounds: int, warm_ups: int, load: float) -> list[str]:
    how = f"Best (median) of {rounds} runs after {warm_ups} that are not measured, in turns, on one server. Ratios are"
    table = f"{scenario.rows:,} rows x 13 columns in {scenario.partitions} base file(s), one row in"
    trino = f"Trino {trino_download.ARCHIVE.version}"
    machine = f"{trino}, 1 GB of heap, {os.cpu_count()} cores shared with the service; load average before"
    return [
        f"{how} those of the best, in brackets of the medians; CPU is that of Trino and of the service together.",
        "",
        f"- {table} {scenario.update_every} updated and one in {scenario.delete_every:,} deleted in the log",
        "- the baseline is Trino's Hive connector on the base files alone, whose answer is stale",
        "- the other answers are that of a snapshot read with Arrow, or it says void",
        "- first load: a new service with an empty scratch folder; the query waits until the snapshot is built",
        f"- slices whole: the service has `{' '.join(REWRITING)}`, and so writes the merged rows anew",
        f"- log blocks: decoded and merged by Trino alone; {_runs(BLOCKS)}",
        f"- payload in Python: a function of Trino merges the rows that the log updates; {_runs(PAYLOAD)}",
        "- the session of the SQL view has `join_distribution_type = 'BROADCAST'`",
        f"- {machine} {load:.2f}",
    ]


def _runs(route: str) -> str:
    times, before = SLOW[route]
    return f"{times - before} runs, after {before}"


if __name__ == "__main__":
    main()
