"""A user's payload, in a module that uses only what Trino's Python has."""

from hudi_bridge.merge.custom_payload import RecordPayload, Row


class AddingPayload(RecordPayload):
    """Adds up a column; a sum of zero deletes the record."""

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        """The sum, with both notes."""
        total = current["n"] + incoming["n"]
        return {**incoming, "n": total, "note": f"{current['note']} + {incoming['note']}"} if total else None
