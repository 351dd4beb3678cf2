"""The blocks of the pages that need Spark; see tests/support/snippets.py."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.snippets import Session, blocks_of

PAGES = blocks_of("tests/connectors/spark/test_spark_snippets.py")


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_do_what_it_says(page: str, spark: SparkSession, tmp_path: Path) -> None:
    # Other tests, and other pages, have views of this name in the same session.
    spark.catalog.dropTempView("trips")
    session = Session.of(tmp_path, spark=spark)
    for block in PAGES[page]:
        # The workers of this session are in another folder than the table, where a reader's are in the same.
        text = block.text.replace('"trips"', f'"{tmp_path}/trips"').replace("path 'trips'", f"path '{tmp_path}/trips'")
        if block.language == "sql":
            spark.sql(text).collect()
        else:
            session.run(replace(block, text=text))
