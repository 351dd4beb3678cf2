"""A user's payload, in a module that uses only what Trino's Python has."""

from hudi_bridge.merge.custom_payload import RecordPayload, Row


class AddingPayload(RecordPayload):
    """Adds up a column; a sum of zero deletes the record."""

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        """The sum, with both notes."""
        total = current["n"] + incoming["n"]
        return {**incoming, "n": total, "note": f"{current['note']} + {incoming['note']}"} if total else None


class AddingAnyPayload(RecordPayload):
    """Does the same in a way that does not say which columns it needs."""

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        """The sum, with both notes."""
        total = current["n"] + incoming["n"]
        made = {name: incoming[name] for name in incoming}
        made.update(n=total, note=f"{current['note']} + {incoming['note']}")
        return made if total else None
