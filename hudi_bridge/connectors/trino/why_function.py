"""What of a merge rule SQL cannot say, so that a function has to decide on contested rows."""

from hudi_bridge.engines import MergeRule


def why_function(rule: MergeRule | None, *, merges_fields: bool) -> str | None:
    """What it is, None if SQL can say all; ``merges_fields`` is whether partial updates are in the logs."""
    if rule is None:
        return None
    if rule.payload is not None:
        return f"the payload {rule.payload_class}"
    if rule.fill is not None:
        return f"merging of fields, {rule.fill} taken from the row that loses"
    if merges_fields:
        return "merging of fields, of partial updates in the logs"
    if rule.sequences_against_base:
        return "ordering values of a file number, a dot and a position"
    return None
