"""Tables of nested types, and of names of fields, by real Hudi: as Arrow, and published for clients of Iceberg."""

from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from hudi_bridge.connectors.iceberg.compatibility import Rewriting
from hudi_bridge.errors import UnsupportedTableError
from tests.connectors.iceberg.golden import as_pyiceberg_has_it
from tests.connectors.iceberg.publishing import FOR_PRESTO, publish
from tests.support.compare import differences
from tests.support.golden_cases import golden_nested
from tests.support.golden_queries import answer_of, dataset_of
from tests.support.strength import one_in

QUERIES = {query.name: query for query in golden_nested()}
SNAPSHOTS = {query.case: query for query in QUERIES.values() if query.kind == "snapshot"}
MISREAD = {"two_levels", "two_levels_of_maps", "of_spark_legacy", "names", "names_not_ascii"}
"""Tables whose base files DuckDB misreads, but for those in Spark's legacy format also Spark with Iceberg."""
UNOPENED = "two_levels_of_maps"
"""The table whose base file Trino with Iceberg does not open."""


@pytest.mark.parametrize("name", one_in(4, QUERIES))
def test_rows_are_those_of_hudi(name: str) -> None:
    assert differences(answer_of(QUERIES[name]), dataset_of(QUERIES[name]).to_table()) == []


def test_the_tables_have_all_nested_types_in_all_forms_of_lists() -> None:
    columns = {case: set(answer_of(query).column_names) for case, query in SNAPSHOTS.items()}
    assert len({name for name in columns["three_levels"] if name.startswith("c_")}) == 3 + 9 + 27
    assert columns["two_levels"] | columns["two_levels_of_maps"] == columns["three_levels"] == columns["of_spark"]
    assert columns["of_spark"] == columns["of_spark_legacy"]


@pytest.mark.parametrize("case", one_in(4, SNAPSHOTS))
@pytest.mark.parametrize(
    "rewriting", [Rewriting(), FOR_PRESTO, Rewriting(lists_as_stored=True)], ids=["any", "presto", "as stored"]
)
def test_base_files_that_some_client_misreads_are_rewritten_and_no_others(
    case: str, rewriting: Rewriting, tmp_path: Path
) -> None:
    query = SNAPSHOTS[case]
    if case == "names_not_ascii" and rewriting == FOR_PRESTO:
        with pytest.raises(UnsupportedTableError, match=r"fields for Presto: found c_u.S.ünï, "):
            publish(query.table, tmp_path / "published", rewriting)
        return
    published = publish(query.table, tmp_path / "published", rewriting)
    scan = StaticTable.from_metadata(published.metadata_location).scan()
    files = {task.file.file_path.removeprefix("file://") for task in scan.plan_files()}
    in_place = [path for path in files if Path(path).is_relative_to(query.table)]
    is_rewritten = case == UNOPENED or (not rewriting.lists_as_stored and case in MISREAD)
    assert bool(in_place) is not is_rewritten
    assert differences(as_pyiceberg_has_it(answer_of(query)), as_pyiceberg_has_it(scan.to_arrow())) == []
