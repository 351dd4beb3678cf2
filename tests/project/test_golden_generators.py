import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.golden.generate.cases import CASES
from tests.golden.generate.log_blocks import inventory
from tests.golden.generate.questions import Questions
from tests.golden.generate.registry import Case
from tests.golden.generate.releases import RELEASES
from tests.golden.generate.timeline import instants, table_version
from tests.support.golden_cases import golden_case, golden_queries, golden_table

ROOT = Path(__file__).parents[2]
GOLDEN = {name: case for name, case in CASES.items() if case.is_golden}
ARCHIVED = sorted({query.case for query in golden_queries(("snapshot",))})
AFTER_A_DOWNGRADE = ("m_min_down6_120", "m_min_down6_nosched_120")
"""They were asked no questions about instants: these were looked for in the folder of the version before."""


def document(name: str) -> dict[str, Any]:
    actual: dict[str, Any] = json.loads((golden_case(name) / "case.json").read_text())
    return actual


def test_every_case_of_the_archives_has_a_generator_and_every_generator_a_case() -> None:
    assert sorted(GOLDEN) == ARCHIVED


@pytest.mark.parametrize("name", ARCHIVED)
def test_a_generator_says_what_its_case_says(name: str) -> None:
    case, actual = CASES[name], document(name)
    assert case.release == actual["hudi_version"]
    assert actual["covers"] in {case.covers, ""}
    assert golden_case(name).parent.name.startswith(f"{case.group}-")


def test_cases_that_begin_as_others_begin_as_cases_that_are_not_golden() -> None:
    beginnings = {case.begins_as for case in CASES.values() if case.begins_as is not None}
    assert beginnings == {name for name, case in CASES.items() if not case.is_golden}


def test_beginnings_are_written_before_what_goes_on_from_them() -> None:
    order = list(RELEASES)
    for case in CASES.values():
        if case.begins_as is not None:
            assert order.index(CASES[case.begins_as].release) < order.index(case.release)


def test_the_registry_needs_no_spark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import tests.golden.generate.__main__"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_cases_are_listed_by_group() -> None:
    command = [sys.executable, "-m", "tests.golden.generate", "--list", "a"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    assert [line.split()[0] for line in done.stdout.splitlines()] == [name for name in GOLDEN if name[0] == "a"]


@pytest.mark.parametrize("name", [name for name in ARCHIVED if name not in AFTER_A_DOWNGRADE])
def test_instants_are_those_that_the_case_was_asked_about(name: str) -> None:
    assert [instant.as_dict() for instant in instants(golden_table(name))] == document(name)["instants"]


@pytest.mark.parametrize(
    "name", ["a_story_v6_0150", "a_story_v9_120", "e_nonpart_120", "g_sor_add_0150", "i_cdc_102", "l_storm_120"]
)
def test_questions_are_those_that_the_case_was_asked(name: str) -> None:
    case, table, actual = CASES[name], golden_table(name), document(name)
    questions = usual_questions(case).about(instants(table), table_version(table), has_changes=name.startswith("i_cdc"))
    asked = [(query["kind"], query["options"]) for query in actual["queries"]]
    assert [(question.kind, question.options) for question in questions] == asked


def usual_questions(case: Case) -> Questions:
    return Questions.of_group(case.group, case.name[0])


@pytest.mark.parametrize(
    "name",
    [
        "b_sql_partial_120",
        "c_corrupt_garbage_0150",
        "c_corrupt_tail_120",
        "c_rollback_block_0150",
        "d_log_compaction_120",
    ],
)
def test_an_inventory_counts_the_blocks_of_logs(name: str) -> None:
    assert inventory(golden_table(name)) == document(name)["log_blocks"]
