"""Hudi on Spark in the suite for any reader: it says once more what it said when the tables were written."""

import pytest

from tests.golden.conformance.processes import FunctionReader, Limits, Verdict
from tests.golden.conformance.results import kept_results, run
from tests.golden.conformance.suite import features_of, named
from tests.golden.generate.releases import NEWEST, PYTHON35
from tests.support.golden_queries import CASES, chosen_cases

pytestmark = pytest.mark.jvm
OF_NEWEST = {case for case in CASES if ("table version", f"9, Hudi {NEWEST}") in features_of(case)}
SECONDS = 300
"""Of a query, and of the start of Spark: generous, as these say nothing of the rows."""


def test_hudi_gives_its_own_answers_and_verdicts_that_are_kept_are_true() -> None:
    cases = chosen_cases(OF_NEWEST, 1) | chosen_cases(CASES - OF_NEWEST, 1)
    queries = named(cases, ["snapshot"])
    reader = FunctionReader(
        "tests.golden.readers.spark:read", Limits(seconds=SECONDS, mebibytes=0), python=str(PYTHON35)
    )
    try:
        now = run(reader, queries)
    finally:
        reader.close()
    assert now.reader == f"Hudi {NEWEST} on Spark"
    others = {case for (case, _), judgement in now.judgements.items() if judgement.verdict != Verdict.EQUAL}
    assert others & OF_NEWEST == set()
    (result,) = kept_results("spark")
    keys = now.judgements.keys() & result.judgements.keys()
    assert [key for key in keys if result.judgements[key].verdict != now.judgements[key].verdict] == []
