"""Which version of a record wins, one record at a time, in plain Python.

The slow and obvious statement of what a merge rule means, which the columnar merge is tested against. It imports
nothing, so that its text can run where no package is installed.

A version is a tuple ``(ordering, is_delete, always_deletes)``: the ordering values, compared field by field with None
below everything (floats have to be given as numbers that compare in Java's total order); whether the version deletes
the record; and whether it is a delete without an ordering value of its own. Log versions of a key are folded in the
order of their arrival; the survivor meets the row of the base file.

Who wins where two meet is a table of outcomes, given for each rule in ``merge.rules``: the later of the two, the
earlier, or the one of the higher ordering values, which is the later if they are equal.

Some rules also merge fields: where a field of the version that wins is unset, it takes the field of the version that
loses, unless one of the two is a delete. What it means to be unset (to be null, to be the schema's default, to have
been left out of a partial update) is decided before.

Source: ``BufferedRecordMergerFactory``, ``PartialUpdateHandler`` and ``KeyBasedFileGroupRecordBuffer`` of Hudi 1.x;
the payload classes and ``HoodieMergedLogRecordScanner`` of 0.x.
"""

ROW, DELETE, UNORDERED_DELETE = 0, 1, 2
"""What a version can be; the last is a delete without an ordering value."""

EARLIER, LATER, HIGHER = 0, 1, 2
"""Who wins where two versions meet."""

Version = tuple[tuple[object, ...], bool, bool]
Outcomes = tuple[int, int, int]
"""An outcome for each of what the later version can be."""
InLogs = tuple[Outcomes, Outcomes, Outcomes]
"""Outcomes for each of what the earlier version can be."""


def what_is(version: Version) -> int:
    """What a version is."""
    _, is_delete, always_deletes = version
    if always_deletes:
        return UNORDERED_DELETE
    return DELETE if is_delete else ROW


def is_lower(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    """Whether the left ordering values sort before the right ones."""
    for one, other in zip(left, right, strict=True):
        if one == other:
            continue
        if one is None or other is None:
            return one is None
        return one < other  # type: ignore[operator, no-any-return]
    return False


def later_replaces(in_logs: InLogs, earlier: Version, later: Version) -> bool:
    """Whether the later of two log versions of a key takes the place of the earlier."""
    outcome = in_logs[what_is(earlier)][what_is(later)]
    return not is_lower(later[0], earlier[0]) if outcome == HIGHER else outcome == LATER


def log_replaces_base(over_base_row: Outcomes, base_ordering: tuple[object, ...], log: Version) -> bool:
    """Whether the surviving log version takes the place of the base row (for a delete: removes it)."""
    outcome = over_base_row[what_is(log)]
    return not is_lower(log[0], base_ordering) if outcome == HIGHER else outcome == LATER


def survivor(in_logs: InLogs, versions: list[Version]) -> int:
    """The position of the version that survives among a key's log versions, given in the order of their arrival."""
    kept = 0
    for position in range(1, len(versions)):
        if later_replaces(in_logs, versions[kept], versions[position]):
            kept = position
    return kept


def field_source(in_logs: InLogs, versions: list[Version], unset: list[bool], *, newest: bool) -> int:
    """The position of the version that one field of the survivor comes from.

    ``unset`` says of each version whether the field is unset. ``newest`` is for fields that follow the later version of
    any two, whichever of them wins.
    """
    kept = source = 0
    for position in range(1, len(versions)):
        replaces = later_replaces(in_logs, versions[kept], versions[position])
        if versions[kept][1] or versions[position][1]:
            source = position if replaces else source
        elif newest or (unset[source] if not replaces else not unset[position]):
            source = position
        kept = position if replaces else kept
    return source


def field_from_log(*, log_wins: bool, base_unset: bool, log_unset: bool) -> bool:
    """Whether one field of the row that a base row and the surviving log version become is that of the log version."""
    return not log_unset if log_wins else base_unset
