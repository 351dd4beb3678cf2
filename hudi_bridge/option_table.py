"""The read options of Hudi and of this package: what each is about, and whether it is followed.

Every entrance (Python, DuckDB, Polars, Spark, the command line, the service) checks its options against this table. An
option that would change rows, and is not followed, is refused; so is a name that is not in the table.

Source: ``DataSourceReadOptions``, ``HoodieReaderConfig``, ``HoodieCommonConfig``, ``HoodieMetadataConfig`` and
``HoodieMemoryConfig`` of Hudi 0.15 to 1.2.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from hudi_bridge.errors import QueryError


class Effect(StrEnum):
    """What becomes of an option: it is followed; it is an argument of single queries; it changes no row; refused."""

    HONOURED = "honoured"
    OF_QUERY = "of a query"
    HARMLESS = "harmless"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ReadOption:
    """A read option.

    ``meaning`` says what it does, in Hudi if it is refused. ``allowed`` is the value at which a refused option changes
    nothing, None if there is none. ``argument`` is what an option of a query is called outside of Spark.
    """

    name: str
    effect: Effect
    meaning: str
    allowed: str | None = None
    argument: str = ""


def _honoured() -> Iterator[ReadOption]:
    meanings = {
        "hoodie.payload.delete.field": "the column of the delete marker",
        "hoodie.payload.delete.marker": "the value of the delete marker",
        "hoodie.allow.operation.metadata.field": "whether rows have the operation of a changelog",
        "hoodie.write.record.merge.custom.implementation.classes": "the record mergers of the writers",
        "hoodie.datasource.write.record.merger.impls": "the record mergers of the writers",
        "hudi_bridge.read.as.release": "the release whose rules apply",
        "hudi_bridge.bootstrap.source": "the files that the table was bootstrapped from",
        "hudi_bridge.blob.source": "the files that BLOB columns refer to",
        "hoodie.read.blob.inline.mode": "whether BLOBs in Lance files are references or bytes",
        "hudi_bridge.read.unreleased": "whether table version 10 is read",
        "hudi_bridge.paths.tell.values": "whether rows have the values of their partition path",
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable": "whether ranges become full scans",
        "hoodie.read.timeline.holes.resolution.policy": "what to do where a write in a range is running",
        "hoodie.datasource.read.incr.table.version": "by which times commits lie in a range",
        "hoodie.datasource.read.schema.use.end.instanttime": "whether a range has the columns of its end",
        "hoodie.schema.on.read.enable": "whether columns are found by their ids",
        "hoodie.metadata.enable": "whether the metadata table is read",
        "hoodie.enable.data.skipping": "whether indexes are used",
        "hoodie.datasource.query.type": "what a query reads",
        "hoodie.datasource.view.type": "what a query reads, by the words of Hudi before 0.6",
        "hoodie.index.type": "the index of the writers",
        "hoodie.index.bucket.engine": "the engine of their bucket index",
        "hoodie.bucket.index.num.buckets": "how many buckets a partition has",
        "hoodie.bucket.index.hash.field": "the fields that are hashed",
    }
    for name, meaning in meanings.items():
        yield ReadOption(name, Effect.HONOURED, meaning)


def _of_queries() -> Iterator[ReadOption]:
    arguments = {
        "as.of.instant": ("the instant of a time travel", "as_of"),
        "hoodie.datasource.read.begin.instanttime": ("where a range begins", "after"),
        "hoodie.datasource.read.end.instanttime": ("where a range ends", "up_to"),
        "hoodie.datasource.query.incremental.format": ("rows or changes", "incremental or changes"),
        "hoodie.datasource.streaming.startOffset": ("where a stream begins", "after"),
    }
    for name, (meaning, argument) in arguments.items():
        yield ReadOption(name, Effect.OF_QUERY, meaning, argument=argument)


def _harmless() -> Iterator[ReadOption]:
    groups = {
        "how files are found": (
            "hoodie.file.index.enable",
            "hoodie.file.index.cache.use.spillable.map",
            "hoodie.file.index.cache.spillable.mem",
            "hoodie.file.listing.parallelism",
            "hoodie.datasource.read.file.index.listing.mode",
            "hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled",
            "hoodie.datasource.read.file.index.optimize.listing.using.path.filter",
            "hoodie.datasource.read.file.index.list.partitions.from.catalog",
            "hoodie.spark.polaris.catalog.class",
        ),
        "how the metadata table is read": (
            "hoodie.metadata.dir.filter.regex",
            "hoodie.metadata.file.cache.max.size.mb",
            "hoodie.metadata.max.reader.buffer.size",
            "hoodie.metadata.max.reader.memory",
            "hoodie.metadata.optimized.log.blocks.scan.enable",
            "hoodie.metadata.spillable.map.path",
            "hoodie.hfile.block.cache.enabled",
            "hoodie.hfile.block.cache.size",
            "hoodie.hfile.block.cache.ttl.minutes",
            "_hoodie.hfile.use.native.reader",
        ),
        "which indexes are used": (
            "hoodie.metadata.index.bloom.filter.enable",
            "hoodie.metadata.index.column.stats.enable",
            "hoodie.metadata.index.column.stats.column.list",
            "hoodie.metadata.index.column.stats.processing.mode.override",
            "hoodie.metadata.index.column.stats.inMemory.projection.threshold",
            "hoodie.metadata.index.expression.enable",
            "hoodie.metadata.index.partition.stats.enable",
            "hoodie.metadata.index.secondary.enable",
            "hoodie.metadata.global.record.level.index.enable",
            "hoodie.metadata.record.index.enable",
            "hoodie.metadata.record.level.index.enable",
        ),
        "how log blocks are read": (
            "hoodie.compaction.lazy.block.read",
            "hoodie.optimized.log.blocks.scan.enable",
        ),
        "memory and disk": (
            "hoodie.common.diskmap.compression.enabled",
            "hoodie.common.spillable.diskmap.type",
            "hoodie.memory.compaction.fraction",
            "hoodie.memory.compaction.max.size",
            "hoodie.memory.dfs.buffer.max.size",
            "hoodie.memory.merge.fraction",
            "hoodie.memory.merge.max.size",
            "hoodie.memory.spillable.map.path",
            "hoodie.lance.read.allocator.size.bytes",
            "hoodie.lance.read.metadata.allocator.size.bytes",
        ),
        "writers alone": (
            "hoodie.datasource.write.reconcile.schema",
            "hoodie.write.set.null.for.missing.columns",
            "hoodie.fs.atomic_creation.support",
        ),
    }
    for meaning, names in groups.items():
        for name in names:
            yield ReadOption(name, Effect.HARMLESS, meaning)


def _refused() -> Iterator[ReadOption]:
    relation = "another relation: the timeline, or the files, instead of rows"
    fewer = "leaves out files, and rows with them"
    ordering = "orders the records of tables that do not say by what"
    reader = "another reader, of other rules"
    options: Mapping[str, tuple[str, str | None]] = {
        "hoodie.datasource.merge.type": ("returns rows of logs beside those that they replace", "payload_combine"),
        "hoodie.realtime.merge.skip": ("returns rows of logs beside those that they replace", "false"),
        "hoodie.datasource.read.incr.filters": ("further conditions; a query has its own", ""),
        "hoodie.datasource.read.incr.path.glob": (fewer, ""),
        "hoodie.datasource.read.incr.skip_compact": (fewer, "false"),
        "hoodie.datasource.read.incr.skip_cluster": (fewer, "false"),
        "hoodie.datasource.read.paths": (fewer, None),
        "hoodie.base.path": ("the folder of the table, which the path names", None),
        "hoodie.assume.date.partitioning": (fewer, "false"),
        "hoodie.datasource.read.extract.partition.values.from.path": (
            "takes values of partition columns from the path instead of the files", "false",
        ),
        "hoodie.datasource.read.partition.value.extractor.enabled": (
            "has a class of Java make values of partition columns from the path", "false",
        ),
        "hoodie.datasource.read.streaming.table.version": ("orders the commits of a stream by other times", None),
        "hoodie.datasource.read.create.filesystem.relation": (relation, None),
        "hoodie.datasource.read.table.valued.function.filesystem.relation.subpath": (relation, None),
        "hoodie.datasource.read.table.valued.function.timeline.relation": (relation, None),
        "hoodie.datasource.read.table.valued.function.timeline.relation.archived": (relation, None),
        "hoodie.datasource.read.use.new.parquet.file.format": (reader, "false"),
        "hoodie.file.group.reader.enabled": (reader, "true"),
        "hoodie.compaction.reverse.log.read": ("reads log blocks from the last to the first", "false"),
        "hoodie.merge.use.record.positions": ("where false, rows with the same key are merged otherwise", "true"),
        "hoodie.datasource.write.precombine.field": (ordering, None),
        "hoodie.payload.ordering.field": (ordering, None),
        "hoodie.payload.update.on.same.ordering.field": ("where false, the older of two equal records wins", "true"),
        "hoodie.record.merge.mode": ("merges records by another rule than that of the table", None),
    }  # fmt: skip
    for name, (meaning, allowed) in options.items():
        yield ReadOption(name, Effect.REFUSED, meaning, allowed=allowed)


READ_OPTIONS: Mapping[str, ReadOption] = {
    option.name: option for options in (_honoured(), _of_queries(), _harmless(), _refused()) for option in options
}
"""By name."""
_BY_LOWER_CASE = {name.lower(): name for name in READ_OPTIONS}


def names_of(*effects: Effect) -> tuple[str, ...]:
    """The names of the options with some effects."""
    return tuple(option.name for option in READ_OPTIONS.values() if option.effect in effects)


def spelled(name: str) -> str:
    """The name of an option as Hudi spells it, for one in another case; others are returned as they are."""
    return _BY_LOWER_CASE.get(name.lower(), name)


def require_read_options(options: Mapping[str, str], more: Iterable[str] = ()) -> None:
    """Raises unless all options can be followed, or change nothing; ``more`` are further names.

    Raises:
        QueryError: a name is not a read option, or the option would change rows and is not followed.
    """
    others = tuple(more)
    for name, value in options.items():
        option = READ_OPTIONS.get(name)
        if name in others:
            continue
        if option is None:
            raise QueryError("options", name, _nearest(name, (*READ_OPTIONS, *others)))
        if option.effect is Effect.OF_QUERY:
            raise QueryError(f"options: {name}", repr(value), f"{option.argument} of a query instead: {option.meaning}")
        if option.effect is Effect.REFUSED and value.lower() != option.allowed:
            instead = "no such option" if option.allowed is None else f"{option.allowed!r} or no such option"
            raise QueryError(f"options: {name}", repr(value), f"{instead}: in Hudi, {option.meaning}")


def _nearest(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, names, n=1)
    return f"{close[0]}, the nearest name" if close else "a read option; docs/options.md lists them"
