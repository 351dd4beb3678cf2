"""Schemas are written while other threads look up their fields."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from hudi_bridge.connectors.iceberg.columns import model_document, model_json

COLUMNS = 20


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads that change places all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("many_switches")
def test_a_schema_whose_fields_are_looked_up_meanwhile_is_written() -> None:
    expected = schema().model_dump_json()
    with ThreadPoolExecutor(4) as threads:
        for _ in range(300):
            shared = schema()
            written = [threads.submit(job, shared) for job in (model_json, look_up, model_json, look_up)]
            assert [written[0].result(), written[2].result()] == [expected, expected]
            written[1].result()
            written[3].result()


def test_the_document_is_that_of_the_text() -> None:
    assert Schema.model_validate(model_document(schema())) == schema()
    assert Schema.model_validate_json(model_json(schema())) == schema()


def schema() -> Schema:
    return Schema(*(NestedField(number + 1, f"column_{number}", StringType()) for number in range(COLUMNS)))


def look_up(one: Schema) -> None:
    assert one.find_field(1).name == "column_0"
    assert len(one.column_names) == COLUMNS
    assert one.find_field("COLUMN_1", case_sensitive=False).field_id == 2
    assert one.accessor_for_field(1) is not None
