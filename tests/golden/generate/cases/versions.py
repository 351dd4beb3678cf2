"""A: one story in each table version."""

from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer


@case("a_story_v5_0122", "0.12.2", "same story, table version 5")
@case("a_story_v6_0150", "0.15.0", "same story, table version 6")
@case("a_story_v8_102", "1.0.2", "same story, table version 8", ordering_type="bigint")
@case("a_story_v8_102_intts", "1.0.2", "same story, int ordering field")
@case("a_story_v9_111", "1.1.1", "same story, table version 9")
@case("a_story_v9_120", "1.2.0", "same story, table version 9")
@case("a_story_v6_by120", "1.2.0", "same story, 1.2.0 writing table version 6", version=6)
@case("a_story_v8_by120", "1.2.0", "same story, 1.2.0 writing table version 8", version=8)
@case("a_story_v9_120_nomdt", "1.2.0", "same story, no metadata table", metadata=False)
def a_story(w: Writer, *, version: int | None = None, metadata: bool = True, ordering_type: str | None = None) -> None:
    w.ordering_type = ordering_type or w.ordering_type
    w.use_table_version(version)
    if not metadata:
        w.without_metadata_table()
    w.upsert(range(60), 1, "base", "bulk_insert")
    w.upsert(range(0, 60, 3), 2, "u1")
    # Nine inserts go into the small file groups.
    w.upsert([*range(1, 60, 4), *range(60, 69)], 3, "u2")
    w.upsert(range(0, 60, 7), 4, "del", "delete")
    # Every other deleted key comes back.
    w.upsert([*range(0, 60, 14), *range(2, 60, 9)], 5, "re")
