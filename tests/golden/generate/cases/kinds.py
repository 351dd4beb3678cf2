"""I: change data capture, copy-on-write tables, and tables without rows."""

from tests.golden.generate.cases.stories import tell_story
from tests.golden.generate.options import COMPACT, TABLE_TYPE
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer


@case("i_cdc_0150", "0.15.0", "CDC enabled MOR table, data_before_after")
@case("i_cdc_120", "1.2.0", "CDC enabled MOR table, data_before_after")
@case("i_cdc_cow_120", "1.2.0", "CDC enabled COW table", table_type="COPY_ON_WRITE")
@case("i_cdc_102", "1.0.2", "CDC enabled MOR table")
def i_cdc(w: Writer, *, table_type: str = "MERGE_ON_READ") -> None:
    w.options |= {
        TABLE_TYPE: table_type,
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
    }
    w.upsert(range(24), 1, "base")
    w.upsert([*range(0, 24, 3), 30, 31], 2, "u1")
    w.upsert(range(0, 24, 5), 3, "d", "delete", options=COMPACT if table_type == "MERGE_ON_READ" else None)
    w.upsert([*range(0, 24, 10), 1, 2], 4, "u2")


@case("i_cow_0150", "0.15.0", "COW table")
@case("i_cow_120", "1.2.0", "COW table")
def i_cow(w: Writer) -> None:
    w.options[TABLE_TYPE] = "COPY_ON_WRITE"
    tell_story(w, w.rows)


@case("i_empty_120", "1.2.0", "table created, no commits")
@case("i_empty_0150", "0.15.0", "table created, no commits")
def i_empty(w: Writer) -> None:
    w.sql(
        f"create table {w.name} (id string, ts bigint, v string, part string) using hudi partitioned by (part) "
        f"location '{w.path}' tblproperties (type='mor', primaryKey='id', preCombineField='ts')"
    )


@case("i_only_inflight_0150", "0.15.0", "only an inflight commit")
@case("i_only_inflight_120", "1.2.0", "only an inflight commit")
def i_inflight(w: Writer) -> None:
    w.upsert(range(10), 1, "base")
    w.completed_file(w.last()).unlink()
    w.notes.append("completed file of the only commit removed")


@case("i_all_deleted_120", "1.2.0", "every record deleted by logs; empty commits")
def i_all_deleted(w: Writer) -> None:
    w.upsert(range(12), 1, "base", "bulk_insert")
    w.upsert(range(12), 2, "d", "delete")
    w.upsert([], 3, "none")
