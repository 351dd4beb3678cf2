"""docs/options.md names all read options and environment variables, and no others."""

import re
from pathlib import Path

import pytest

from hudi_bridge import options as options_module
from hudi_bridge.options import READ_OPTIONS, Effect, names_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
VARIABLES = PAGE.split("## Environment variables")[1]
SECTIONS = {
    Effect.HONOURED: "## Read options",
    Effect.OF_QUERY: "### Options of single queries",
    Effect.HARMLESS: "### Without effect",
    Effect.REFUSED: "### Refused options",
}
OF_HUDI = """
as.of.instant hoodie.base.path hoodie.common.diskmap.compression.enabled hoodie.common.spillable.diskmap.type
hoodie.compaction.lazy.block.read hoodie.compaction.reverse.log.read hoodie.datasource.merge.type
hoodie.datasource.query.incremental.format hoodie.datasource.query.type hoodie.datasource.view.type
hoodie.datasource.read.begin.instanttime hoodie.datasource.read.create.filesystem.relation
hoodie.datasource.read.end.instanttime hoodie.datasource.read.extract.partition.values.from.path
hoodie.datasource.read.file.index.list.partitions.from.catalog hoodie.datasource.read.file.index.listing.mode
hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled
hoodie.datasource.read.file.index.optimize.listing.using.path.filter
hoodie.datasource.read.incr.fallback.fulltablescan.enable hoodie.datasource.read.incr.filters
hoodie.datasource.read.incr.path.glob hoodie.datasource.read.incr.skip_cluster
hoodie.datasource.read.incr.skip_compact hoodie.datasource.read.incr.table.version
hoodie.datasource.read.partition.value.extractor.enabled hoodie.datasource.read.paths
hoodie.datasource.read.schema.use.end.instanttime hoodie.datasource.read.streaming.table.version
hoodie.datasource.read.table.valued.function.filesystem.relation.subpath
hoodie.datasource.read.table.valued.function.timeline.relation
hoodie.datasource.read.table.valued.function.timeline.relation.archived hoodie.datasource.streaming.startOffset
hoodie.datasource.write.precombine.field hoodie.datasource.write.reconcile.schema hoodie.enable.data.skipping
hoodie.file.group.reader.enabled hoodie.file.index.cache.spillable.mem hoodie.file.index.cache.use.spillable.map
hoodie.file.index.enable hoodie.fs.atomic_creation.support hoodie.hfile.block.cache.enabled
hoodie.hfile.block.cache.size hoodie.hfile.block.cache.ttl.minutes hoodie.memory.compaction.max.size
hoodie.memory.dfs.buffer.max.size hoodie.merge.use.record.positions hoodie.read.blob.inline.mode
hoodie.read.timeline.holes.resolution.policy hoodie.schema.on.read.enable hoodie.spark.polaris.catalog.class
hoodie.write.set.null.for.missing.columns
"""
"""The keys of ``DataSourceReadOptions``, ``HoodieReaderConfig`` and ``HoodieCommonConfig`` of Hudi 1.2.0."""


def names_in(section: str) -> list[str]:
    """The first cells of a table."""
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize("effect", Effect)
def test_the_page_lists_each_read_option_once(effect: Effect) -> None:
    section = PAGE.split(f"\n{SECTIONS[effect]}\n")[1].split("\n##")[0]
    assert sorted(names_in(section)) == sorted(names_of(effect))


def test_the_page_says_of_refused_options_how_they_are_taken() -> None:
    cells = dict(re.findall(r"^\| `([^`]+)` \| (never|an empty text|`[^`]*`) \| ", PAGE, re.MULTILINE))
    spelled = {None: "never", "": "an empty text"}
    refused = {name: READ_OPTIONS[name].allowed for name in names_of(Effect.REFUSED)}
    assert {name: cells[name] for name in refused} == {
        name: spelled.get(allowed, f"`{allowed}`") for name, allowed in refused.items()
    }


def test_the_table_has_all_read_options_of_hudi() -> None:
    assert set(OF_HUDI.split()) <= READ_OPTIONS.keys()


def test_the_table_has_each_option_that_is_parsed() -> None:
    parsed = {value for name, value in vars(options_module).items() if name.endswith("_KEY")}
    assert parsed <= set(names_of(Effect.HONOURED))


def test_the_page_lists_each_environment_variable_once() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "hudi_bridge").rglob("*.py")]
    read = {name for source in sources for name in re.findall(r"\bHUDI_(?:BRIDGE|SPARK)_[A-Z_]+\b", source)}
    assert sorted(names_in(VARIABLES)) == sorted(read)
