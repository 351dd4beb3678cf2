"""That the pages on compatibility say of the golden tables what the tests know of them."""

import re
from pathlib import Path

import pytest

import hudi_bridge
from tests.support.compatibility_page import DOCS, FEATURES, GENERATED, GeneratedSection, golden_tables
from tests.support.refusals import ELSEWHERE, REFUSALS, Refusal, error_of

PROPERTIES = """
hoodie.archivelog.folder hoodie.bootstrap.base.path hoodie.bootstrap.index.class hoodie.bootstrap.index.enable
hoodie.bootstrap.index.type hoodie.compaction.payload.class hoodie.database.name
hoodie.datasource.write.drop.partition.columns hoodie.datasource.write.hive_style_partitioning
hoodie.datasource.write.partitionpath.urlencode hoodie.datasource.write.slash.separated.date.partitioning
hoodie.partition.metafile.use.base.format hoodie.populate.meta.fields hoodie.record.merge.mode
hoodie.record.merge.strategy.id hoodie.table.base.file.format hoodie.table.cdc.enabled
hoodie.table.cdc.supplemental.logging.mode hoodie.table.checksum hoodie.table.create.schema hoodie.table.format
hoodie.table.index.defs.path hoodie.table.initial.version hoodie.table.keygenerator.class
hoodie.table.keygenerator.type hoodie.table.legacy.payload.class hoodie.table.log.file.format
hoodie.table.metadata.partitions hoodie.table.metadata.partitions.inflight
hoodie.table.multiple.base.file.formats.enable hoodie.table.name hoodie.table.ordering.fields
hoodie.table.partial.update.mode hoodie.table.partition.fields hoodie.table.partition_extractor_class
hoodie.table.precombine.field hoodie.table.recordkey.fields hoodie.table.secondary.indexes.metadata
hoodie.table.timeline.timezone hoodie.table.type hoodie.table.version hoodie.timeline.history.path
hoodie.timeline.layout.version hoodie.timeline.path
"""
"""The keys of ``HoodieTableConfig`` of Hudi 1.2.0."""


@pytest.mark.parametrize("section", GENERATED, ids=lambda section: section.page.name)
def test_the_pages_are_up_to_date(section: GeneratedSection) -> None:
    page = section.page.read_text()
    assert (page.count(section.begin), page.count(section.end)) == (1, 1)
    assert page == section.renewed(), "python -m tests.support.compatibility_page writes it anew"


def test_every_group_is_said_to_be_about_something() -> None:
    assert {table.group for table in golden_tables()} == set(FEATURES)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.what)
def test_what_the_page_says_is_refused_is_refused(refusal: Refusal) -> None:
    assert error_of(refusal).supported


def test_all_that_is_refused_is_said_somewhere() -> None:
    root = Path(hudi_bridge.__file__).parent
    sources = (path for path in root.rglob("*.py") if "connectors" not in path.parts)
    raised = re.compile(r'UnsupportedTableError\(\s*"([^"]+)"')
    features = {name for path in sources for name in raised.findall(path.read_text())}
    shown = {error_of(refusal).feature for refusal in REFUSALS}
    assert features - shown == ELSEWHERE.keys() - shown


def test_each_property_of_hudi_is_read_or_said_to_change_no_row() -> None:
    page = (DOCS / "table-properties.md").read_text()
    section = page.split("\n## Properties of a table\n")[1].split("\n## ")[0]
    said = set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
    sources = "".join(path.read_text() for path in Path(hudi_bridge.__file__).parent.rglob("*.py"))
    assert {name for name in PROPERTIES.split() if f'"{name}"' not in sources} == said
