"""K, m: tables of 0.15 that 1.2 goes on writing, and downgrades."""

from tests.golden.generate.cases.services import ARCHIVE
from tests.golden.generate.options import METADATA, SCHEDULE_COMPACTION, TABLE_VERSION
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

TABLE_NAME = "hoodie.table.name"
NAME = "mtab"
"""Releases insist on the name that a table was created with."""


def begin(w: Writer) -> None:
    w.without_metadata_table()
    w.options[TABLE_NAME] = NAME
    w.upsert(range(40), 10, "base", "bulk_insert")
    w.upsert(range(0, 40, 2), 20, "u1")
    w.upsert(range(0, 40, 3), 5, "late")
    w.upsert(range(0, 40, 8), 4, "d", "delete")
    w.upsert(range(40, 50), 10, "new")


def go_on(w: Writer) -> None:
    w.upsert(range(0, 50, 5), 30, "m0")
    w.upsert(range(0, 50, 7), 7, "mlate0")
    w.upsert(range(1, 50, 9), 8, "d", "delete")


@case("m0_plain", "0.15.0", "written by 0.15", is_golden=False)
def m_begin_plain(w: Writer) -> None:
    begin(w)


@case("m0_pending", "0.15.0", "written by 0.15, compaction pending, archived", is_golden=False)
def m_begin_pending(w: Writer) -> None:
    begin(w)
    w.upsert(range(0, 40, 11), 40, "sched", options={**SCHEDULE_COMPACTION, **ARCHIVE})
    w.upsert(range(0, 40, 5), 41, "after")


@case("m_v6_plain_120", "1.2.0", "0.15 table, 1.2 keeps version 6", begins_as="m0_plain", version=6)
@case(
    "m_auto_pending_120",
    "1.2.0",
    "0.15 table with pending compaction and archive, upgraded by 1.2",
    begins_as="m0_pending",
)
def m_written_on(w: Writer, *, version: int | None = None) -> None:
    w.without_metadata_table()
    w.options[TABLE_NAME] = NAME
    if version is not None:
        w.options |= {TABLE_VERSION: version, "hoodie.write.auto.upgrade": "false"}
    go_on(w)


@case(
    "m_call_pending_120", "1.2.0", "0.15 table with pending compaction, call upgrade_table only", begins_as="m0_pending"
)
def m_upgraded(w: Writer) -> None:
    w.register()
    w.set(METADATA, "false")
    w.sql(f"call upgrade_table(table => '{w.name}', to_version => 'NINE')").collect()


@case(
    "m_min_down6_120",
    "1.2.0",
    "minimal: version 9, one delta, compaction pending, one delta, downgraded to 6",
    pending=True,
)
@case("m_min_down6_nosched_120", "1.2.0", "minimal: version 9, two deltas, downgraded to 6", pending=False)
def m_downgraded(w: Writer, *, pending: bool) -> None:
    w.without_metadata_table()
    w.write(w.rows(range(6), 1, "base", parts=["a"]), "bulk_insert")
    w.write(w.rows(range(0, 6, 2), 2, "u1", parts=["a"]), options=SCHEDULE_COMPACTION if pending else None)
    w.write(w.rows(range(0, 6, 3), 3, "u2", parts=["a"]))
    w.register()
    w.set(METADATA, "false")
    w.sql(f"call downgrade_table(table => '{w.name}', to_version => 'SIX')").collect()
