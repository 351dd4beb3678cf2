"""Rows under read options that Hudi answers, too."""

import pyarrow as pa

from hudi_bridge import HudiTable
from hudi_bridge.options import COLUMN_IDS_KEY, QUERY_TYPE_KEY, RANGE_VERSION_KEY, VIEW_TYPE_KEY, Effect, names_of
from tests.support.golden_cases import GoldenQuery


def is_range(query: GoldenQuery) -> bool:
    """Whether Hudi reads a range: the older of two options counts if it stands alone."""
    return bool(query.options.get(QUERY_TYPE_KEY, query.options.get(VIEW_TYPE_KEY)) == "incremental")


def answer_to(query: GoldenQuery) -> pa.Table:
    """Our rows; Hudi finds columns by name unless an option says otherwise."""
    not_of_open = (*names_of(Effect.OF_QUERY), *((QUERY_TYPE_KEY, VIEW_TYPE_KEY) if is_range(query) else ()))
    given = {name: value for name, value in query.reader_options.items() if name not in not_of_open}
    table = HudiTable.open(query.table, options={COLUMN_IDS_KEY: "false"} | given)
    if query.kind == "cdc":
        return table.changes(query.after, query.up_to, format="cdc").to_table()
    if not is_range(query):
        return table.query(query.as_of).to_table()
    # Hudi 1.0 includes the begin of a range of completion times.
    includes_begin = query.case.endswith(("_102", "_102_intts")) and given.get(RANGE_VERSION_KEY) != "6"
    begin = str(int(query.after) - 1) if includes_begin and query.after != "000" else query.after
    return table.incremental(begin, query.up_to).to_table()
