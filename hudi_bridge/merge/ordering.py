"""Which of two versions of a record wins, in plain Python: the reference for every merge rule.

A version is a tuple ``(ordering, kind)``: the ordering values, and one of the kinds below. None sorts below every
ordering value; floats must be given as numbers in Java's total order.

If a rule merges fields, a field that is unset in the winner comes from the loser, unless one of the two is a delete. By
some rules, it stays if the winner is the earlier version.

Source: ``BufferedRecordMergerFactory``, ``PartialUpdateHandler`` and ``KeyBasedFileGroupRecordBuffer`` of Hudi 1.x; the
payload classes and ``HoodieMergedLogRecordScanner`` of 0.x.
"""

ROW, DELETE, UNORDERED_DELETE, MARKED = 0, 1, 2, 3
"""The kinds of versions: a row, a record of a delete block, either kind of delete without an ordering value, and a row
that is marked as a delete.
"""

EARLIER, LATER, HIGHER = 0, 1, 2
"""Which of two versions wins; ``HIGHER``: the one with the higher ordering values, the later if they are equal."""

Version = tuple[tuple[object, ...], int]
Outcomes = tuple[int, int, int, int]
"""One outcome for each kind of later version: row, delete, unordered delete, marked row."""
InLogs = tuple[Outcomes, Outcomes, Outcomes, Outcomes]
"""``Outcomes`` for each kind of earlier version."""
OverBase = tuple[int, int, int]
"""One outcome for each kind of log version that meets a base row, where a marked row is a row or a delete."""


def what_is(*, is_delete: bool, always_deletes: bool, marked: bool) -> int:
    """The kind of a version: of a delete, of one without an ordering value, of one that is a marked row."""
    if always_deletes:
        return UNORDERED_DELETE
    if is_delete:
        return MARKED if marked else DELETE
    return ROW


def is_lower(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    """Whether the left ordering values sort before the right ones."""
    for left_value, right_value in zip(left, right, strict=True):
        if left_value == right_value:
            continue
        if left_value is None or right_value is None:
            return left_value is None
        return left_value < right_value  # type: ignore[operator, no-any-return]
    return False


def later_replaces(in_logs: InLogs, earlier: Version, later: Version) -> bool:
    """Whether the later of two log versions of a key replaces the earlier."""
    outcome = in_logs[earlier[1]][later[1]]
    return not is_lower(later[0], earlier[0]) if outcome == HIGHER else outcome == LATER


def log_replaces_base(over_base_row: OverBase, base_ordering: tuple[object, ...], log: Version) -> bool:
    """Whether the surviving log version replaces the base row or, if it is a delete, removes it."""
    outcome = over_base_row[log[1]]
    return not is_lower(log[0], base_ordering) if outcome == HIGHER else outcome == LATER


def survivor(in_logs: InLogs, versions: list[Version]) -> int:
    """The position of the surviving version among the log versions of a key, given in order of arrival."""
    winner = 0
    for position in range(1, len(versions)):
        if later_replaces(in_logs, versions[winner], versions[position]):
            winner = position
    return winner


def field_source(
    in_logs: InLogs, versions: list[Version], unset: list[bool], *, newest: bool, fills_earlier: bool = True
) -> int:
    """The position of the version from which one field of the survivor is taken.

    ``unset`` has for each version whether the field is unset. ``newest`` is for fields that always come from the later
    of two versions, whichever wins. ``fills_earlier`` is whether a version is also filled that wins over a later one.
    """
    winner = source = 0
    for position in range(1, len(versions)):
        replaces = later_replaces(in_logs, versions[winner], versions[position])
        if versions[winner][1] != ROW or versions[position][1] != ROW:
            source = position if replaces else source
        elif newest or (not unset[position] if replaces else fills_earlier and unset[source]):
            source = position
        winner = position if replaces else winner
    return source
