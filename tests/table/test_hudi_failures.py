"""That each error of Hudi on a golden table is of a kind that docs/hudi-failures.md has, and what is answered there."""

from collections import Counter

import pyarrow as pa
import pytest

from hudi_bridge import HudiReadError, HudiTable
from hudi_bridge.options import READ_AS_RELEASE_KEY
from tests.support.golden_queries import dataset_of, rows_through_arrow
from tests.support.hudi_failures import FAILURES, FailedQuery, failed_queries, failures_of
from tests.support.read_options import answer_to
from tests.support.strength import one_in

FAILED = {failed.name: failed for failed in failed_queries()}


def rows_here(failed: FailedQuery) -> pa.Table:
    """Our rows to a query at which Hudi failed."""
    query = failed.query
    if failed.archive == "read_options":
        return answer_to(query)
    options = {READ_AS_RELEASE_KEY: failed.release.removesuffix(".0")} if failed.archive == "flink" else {}
    return rows_through_arrow(dataset_of(query, HudiTable.open(query.table, options=options)), query)


def test_each_error_of_hudi_is_of_one_kind() -> None:
    assert {
        name: failures_of(failed.query) for name, failed in FAILED.items() if len(failures_of(failed.query)) != 1
    } == {}


def test_each_kind_has_queries() -> None:
    counts = Counter(failure for failed in FAILED.values() for failure in failures_of(failed.query))
    assert counts.keys() == set(FAILURES)


@pytest.mark.parametrize("name", one_in(5, FAILED))
def test_what_hudi_fails_at_is_answered_as_the_page_says(name: str) -> None:
    failed = FAILED[name]
    (failure,) = failures_of(failed.query)
    if failure.refused_as is None:
        assert rows_here(failed).num_columns
        return
    with pytest.raises(HudiReadError) as error:
        rows_here(failed)
    assert type(error.value) is failure.refused_as
