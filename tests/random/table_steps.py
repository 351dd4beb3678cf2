"""Steps that write no rows of their own: table services, rollbacks, savepoints, indexes, upgrades."""

from collections.abc import Mapping
from random import Random

from tests.golden.generate.options import METADATA
from tests.golden.generate.releases import number
from tests.golden.generate.timeline import instants, table_version
from tests.random.draw import Step
from tests.random.drawn_services import CONSISTENT
from tests.random.row_steps import updates
from tests.random.writing import NotApplicableError, TableWriter, step

EVERY_COMMIT: Mapping[str, object] = {"hoodie.compact.inline.max.delta.commits": 1}
ALL_FILES: Mapping[str, object] = {"hoodie.clustering.plan.strategy.small.file.limit": 1000000000}

_NEWEST_VERSION = {"1.0.2": 8, "1.1.1": 9, "1.2.0": 9}
_EXPRESSIONS = {
    "string": ("column_stats", "expr='upper'"),
    "timestamp": ("column_stats", "expr='hour'"),
    "date": ("column_stats", "expr='year'"),
    "bigint": ("column_stats", "expr='from_unixtime', format='yyyy-MM-dd'"),
}
_INDEXING = {"hoodie.metadata.index.check.timeout.seconds": 10}
"""An index waits for the writes that are running, a quarter of an hour for one that has failed."""
"""By the type of a column, the kind and the options of an index of an expression on it."""

# Table services.


@step
def schedule_compaction(writer: TableWriter, chance: Random, one: Step) -> None:
    writer.sql(f"call run_compaction(op => 'schedule', table => '{writer.name}')", EVERY_COMMIT)


@step
def compact(writer: TableWriter, chance: Random, one: Step) -> None:
    """Runs a compaction that is pending, or a new one."""
    is_pending = any(
        instant.action == "compaction" and instant.state != "completed" for instant in instants(writer.path)
    )
    if not is_pending:
        schedule_compaction(writer, chance, one)
    writer.sql(f"call run_compaction(op => 'run', table => '{writer.name}')")


@step
def schedule_clustering(writer: TableWriter, chance: Random, one: Step) -> None:
    order = _clustering_order(writer, chance)
    writer.sql(f"call run_clustering(table => '{writer.name}', op => 'schedule'{order})", ALL_FILES)


@step
def cluster(writer: TableWriter, chance: Random, one: Step) -> None:
    """Runs a clustering that is pending, or a new one."""
    writer.sql(f"call run_clustering(table => '{writer.name}'{_clustering_order(writer, chance)})", ALL_FILES)


def _clustering_order(writer: TableWriter, chance: Random) -> str:
    return ", order => 'id'" if chance.random() < 0.5 and writer.table.index != CONSISTENT else ""


@step
def clean(writer: TableWriter, chance: Random, one: Step) -> None:
    commits = chance.choice([1, 2])
    policy = f"clean_policy => 'KEEP_LATEST_COMMITS', retain_commits => {commits}"
    writer.sql(f"call run_clean(table => '{writer.name}', {policy})")


@step
def archive(writer: TableWriter, chance: Random, one: Step) -> None:
    commits = f"min_commits => {chance.choice([2, 3])}, max_commits => 4, retain_commits => 1"
    metadata = f"enable_metadata => {writer.table.options[METADATA]}"
    writer.sql(f"call archive_commits(table => '{writer.name}', {commits}, {metadata})")


# Rollbacks.


@step
def rollback(writer: TableWriter, chance: Random, one: Step) -> None:
    """Rolls the last commit back, with the write client: the procedure of SQL would upgrade the table."""
    done = writer.completed()
    if len(done) < 2 or done[-1].action != "deltacommit" or done[-1].requested in writer.progress.savepoints:
        raise NotApplicableError("the last commit is the first, or none of rows, or has a savepoint")
    client = writer.client()
    try:
        if not client.rollback(done[-1].requested):
            raise RuntimeError("rollback returned false")
    finally:
        client.close()


@step
def savepoint(writer: TableWriter, chance: Random, one: Step) -> None:
    done = writer.completed(("commit", "deltacommit"))
    if not done:
        raise NotApplicableError("no commit of rows")
    at = done[-1].requested
    writer.sql(f"call create_savepoint(table => '{writer.name}', commit_time => '{at}')")
    writer.progress.savepoints.append(at)


@step
def restore(writer: TableWriter, chance: Random, one: Step) -> None:
    """Goes back to the last savepoint, or makes one."""
    if not writer.progress.savepoints:
        savepoint(writer, chance, one)
        return
    at = writer.progress.savepoints[-1]
    writer.sql(f"call rollback_to_savepoint(table => '{writer.name}', instant_time => '{at}')")


# Indexes.


@step
def create_secondary_index(writer: TableWriter, chance: Random, one: Step) -> None:
    columns = [name for name, kind in writer.rows.plain_columns if kind in ("string", "int", "bigint")]
    if not columns or number(writer.release) < (1, 0):
        raise NotApplicableError("no column that a secondary index can have")
    name = chance.choice(columns)
    writer.sql(f"create index by_{name} on {writer.name} ({name})", _INDEXING)
    writer.progress.indexed.append(name)


@step
def create_expression_index(writer: TableWriter, chance: Random, one: Step) -> None:
    columns = [(name, kind) for name, kind in writer.rows.plain_columns if kind in _EXPRESSIONS]
    if not columns or number(writer.release) < (1, 0):
        raise NotApplicableError("no column that an expression index can have")
    name, kind = chance.choice(columns)
    using, options = _EXPRESSIONS[kind]
    if kind == "string" and chance.random() < 0.4:
        using = "bloom_filters"
    writer.sql(f"create index of_{name} on {writer.name} using {using} ({name}) options({options})", _INDEXING)


# Upgrades.


@step
def upgrade(writer: TableWriter, chance: Random, one: Step) -> None:
    """Upgrades the table with a write."""
    progress = writer.progress
    before, newest = progress.version, _NEWEST_VERSION.get(writer.release, 0)
    if before >= newest:
        raise NotApplicableError("there is no newer version")
    progress.version = chance.choice([version for version in (8, 9) if before < version <= newest])
    try:
        writer.write(updates(writer, chance, one), "upsert", {"hoodie.write.auto.upgrade": True})
    finally:
        progress.version = table_version(writer.path) or before
