"""The cases of the suite: tables of one kind each, and the reads of them.

``Size`` scales all of them. Tables are written by Hudi, but for those of many file slices and those that grow, which
are copies of files that Hudi wrote: see ``copies``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks import recipes
from benchmarks.copies import grow_base_file, multiply_slices
from benchmarks.make_tables import make_tables
from benchmarks.recipes import NO_METADATA_TABLE, PARTIAL_COMMITS, Recipe, delete, trades, upsert, upserts
from benchmarks.scenarios import (
    FIRST_BATCH,
    FULL,
    ONE_PERCENT,
    STREAM,
    THREE_COLUMNS,
    Read,
    Scenario,
    row_key,
)

_RECORD_BYTES = 600
"""What Hudi's writer takes a record of trades for, when it decides where a log block ends."""
_BLOCKS_IN_COMMIT = 10
BOTH = (FULL, THREE_COLUMNS)
LATENCY_SECONDS, BYTES_PER_SECOND = 0.03, 125e6
FAR = f"{LATENCY_SECONDS * 1000:.0f} ms for each request, {BYTES_PER_SECOND / 1e6:.0f} MB a second"
MOST_SLICES_FAR = 100
"""Peers that read one slice after another would take minutes with more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the tables are; ``rows`` are those of a table of updates, other tables have a share of them."""

    rows: int
    slice_rows: int
    slices: tuple[int, ...]
    growth_rows: int
    growth: tuple[int, ...]
    rounds: int

    def with_rows(self, rows: int) -> "Size":
        """The same with another number of rows; file slices keep theirs."""
        return replace(self, rows=rows, growth_rows=rows)


SIZES = {
    "small": Size(
        rows=100_000, slice_rows=500, slices=(1, 10, 100), growth_rows=100_000, growth=(1, 2, 4, 8), rounds=2
    ),
    "standard": Size(
        rows=1_000_000, slice_rows=2_000, slices=(1, 10, 100, 1_000), growth_rows=1_000_000, growth=(1, 4), rounds=3
    ),
    "large": Size(
        rows=4_000_000,
        slice_rows=2_000,
        slices=(1, 10, 100, 1_000),
        growth_rows=1_000_000,
        growth=(1, 2, 4, 8, 16),
        rounds=3,
    ),
}


def _itself(table: Path) -> Path:
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table and its reads.

    Attributes:
        name: what results are kept by; the same in all sizes.
        about: what the table is, for a reader of the results.
        recipe: the SQL that wrote it, or the table that it is a copy of.
        reads: what is read of it.
        copy: makes the copy; the table itself unless given.
        is_far: whether it is read from a store behind a network.
    """

    name: str
    about: str
    recipe: Recipe
    reads: tuple[Read, ...]
    copy: Callable[[Path], Path] = _itself
    is_far: bool = False


def of_scenario(scenario: Scenario) -> Case:
    """The case of one of the tables with a name, which are of one size."""
    about = f"{scenario.rows:,} rows in {scenario.partitions} base file(s), one in {scenario.update_every} updated"
    return Case(name=scenario.name, about=about, recipe=recipes.of_scenario(scenario), reads=scenario.reads)


def cases(size: Size) -> list[Case]:
    """All cases of a size."""
    rows = size.rows
    fewer, few = rows // 4, rows // 10
    updated = {"0.1": 1000, "1": 100, "10": 10, "50": 2}
    one_key = Read(name="one key", where=("id", "=", row_key(rows // 80 * 10)))
    every_read = (FULL, THREE_COLUMNS, ONE_PERCENT, one_key, FIRST_BATCH, STREAM)
    body = (FULL, Read(name="two columns", columns=("id", "price")))
    wide = (FULL, Read(name="three columns", columns=("id", "c001", "c003")))

    def case(name: str, about: str, sql: str, reads: tuple[Read, ...] = BOTH) -> Case:
        return Case(name=name, about=about, recipe=Recipe(name=f"{name}-{rows}", sql=sql), reads=reads)

    def changed(name: str, about: str, changes: Sequence[str], settings: dict[str, str] | None = None) -> Case:
        return case(name, f"{fewer:,} rows, {about}", trades(fewer, changes, settings=settings))

    block_bytes = max(1, fewer // (10 * PARTIAL_COMMITS * _BLOCKS_IN_COMMIT)) * _RECORD_BYTES
    blocks_of_100 = {"hoodie.logfile.data.block.max.size": str(block_bytes)}
    tenth = [upsert(fewer, every=10)]
    parquet, hfile = ({"hoodie.logfile.data.block.format": kind} for kind in ("parquet", "hfile"))
    in_memory = {"hoodie.index.type": "INMEMORY"}
    logged = trades(few, [upsert(few, every=10)], settings=in_memory, operation="upsert")
    found = [
        case(
            f"updates-{share}",
            f"{rows:,} rows, {share} % updated in one Avro block",
            trades(rows, [upsert(rows, every=every)]),
            every_read if share == "10" else BOTH,
        )
        for share, every in updated.items()
    ]
    eight = trades(rows, [upsert(rows, every=10, partitions=8)], partitions=8)
    found += [
        case(
            "partitions-8", f"{rows:,} rows in eight partitions, 10 % updated", eight, (FULL, ONE_PERCENT, FIRST_BATCH)
        ),
        changed("blocks-1", "10 % updated in 1 log block", tenth),
        changed("blocks-10", "10 % updated in 10 log blocks, one a commit", upserts(fewer, every=10)),
        changed("blocks-100", "10 % updated in 100 log blocks, ten a commit", upserts(fewer, every=10), blocks_of_100),
        changed("deletes", "10 % deleted", [delete(10)]),
        changed("parquet-blocks", "10 % updated in a Parquet block", tenth, parquet),
        changed("hfile-blocks", "10 % updated in an HFile block", tenth, hfile),
        changed(
            "partial-updates", "one column of 10 % updated by MERGE INTO", [recipes.partial_update(fewer, every=10)]
        ),
        case("log-only", f"{few:,} rows in logs without a base file, 10 % updated", logged),
        case("evolution", f"{fewer:,} rows, a column renamed and one widened between updates", recipes.evolving(fewer)),
        case("columns-500", f"{rows // 50:,} rows of 500 columns, 10 % updated", recipes.wide(rows // 50), wide),
        case(
            "nested",
            f"{rows // 5:,} rows with lists and maps of structs, 10 % updated",
            recipes.nested(rows // 5),
            body,
        ),
        case(
            "long-text",
            f"{rows // 20:,} rows with 2 KB of text, 10 % updated",
            recipes.long_text(rows // 20),
            body,
        ),
    ]
    found += [*(of_slices(size.slice_rows, times) for times in size.slices), *_growth(size)]
    return [*found, *_far(size, found)]


def of_slices(rows: int, times: int) -> Case:
    """The case of so many file slices, each of so many rows."""
    sql = trades(rows, [upsert(rows, every=10)], settings=NO_METADATA_TABLE)
    return Case(
        name=f"slices-{times}",
        about=f"{times:,} file groups of {rows:,} rows, 10 % updated; copies of one",
        recipe=Recipe(name=f"slice-{rows}", sql=sql),
        copy=partial(multiply_slices, times=times),
        reads=(FULL, FIRST_BATCH),
    )


def _growth(size: Size) -> list[Case]:
    rows = size.growth_rows
    sql = trades(rows, [upsert(rows, every=100)], settings=NO_METADATA_TABLE)
    return [
        Case(
            name=f"growth-{times}",
            about=f"{rows * times:,} rows in one base file, {rows // 100:,} updated; row groups are copies of one",
            recipe=Recipe(name=f"growth-{rows}", sql=sql),
            copy=partial(grow_base_file, times=times),
            reads=(STREAM, THREE_COLUMNS, FIRST_BATCH),
        )
        for times in size.growth
    ]


def _far(size: Size, near: Sequence[Case]) -> list[Case]:
    """Two tables that are read from near too, behind a network."""
    most = max(number for number in size.slices if number <= MOST_SLICES_FAR)
    chosen = {"updates-10": BOTH, f"slices-{most}": (FULL,)}
    return [
        replace(case, name=f"far-{case.name}", about=f"{case.about}; {FAR}", reads=chosen[case.name], is_far=True)
        for case in near
        if case.name in chosen
    ]


def make_all(chosen: Sequence[Case], cache: Path) -> list[Path]:
    """The folders of the tables of some cases; writes those that are missing."""
    unique = {case.recipe.name: case.recipe for case in chosen}
    written = dict(zip(unique, make_tables(list(unique.values()), cache), strict=True))
    return [case.copy(written[case.recipe.name]) for case in chosen]
