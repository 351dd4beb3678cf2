"""A user's payload, in a module that uses only what Trino's Python has."""

from hudi_bridge.merge.custom_payload import RecordPayload, Row


class AddingPayload(RecordPayload):
    """Adds up the quantity."""

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        """The newer row, with the sum."""
        return {**incoming, "qty": current["qty"] + incoming["qty"]}
