"""Which version of a record wins, one record at a time, in plain Python.

The slow and obvious statement of the merge rules, which the columnar merge is tested against. It imports nothing, so
that its text can run where no package is installed.

A version is a tuple ``(ordering, is_delete, always_deletes)``: the ordering values, compared field by field with None
below everything (floats have to be given as numbers that compare in Java's total order); whether the version deletes
the record; and whether it is a delete without an ordering value of its own, which deletes whatever came before it. Log
versions of a key are folded in the order of their arrival; the survivor meets the row of the base file.

=====================  ===============================================  ==========================================
rule                   log version against log version                  surviving log version against base row
=====================  ===============================================  ==========================================
``COMMIT_TIME``        the later one                                    the log version
``EVENT_TIME``         the higher ordering, the later one of equals     the higher ordering, the log if equal
``OVERWRITE_LATEST``   the same, but anything revives a deleted record  the log version
``DEFAULT_PAYLOAD``    the same, but anything revives a deleted record  a delete; else the higher ordering
``PAYLOAD_OF_11``      the same, and any delete deletes                  a delete; else the higher ordering
``LATEST_OF_10``       the later row; deletes as in ``EVENT_TIME``       a row; a delete if its ordering is not lower
=====================  ===============================================  ==========================================

Under ``CUSTOM_PAYLOAD`` only deletes are decided here, as under ``OVERWRITE_LATEST``.

Some rules also merge fields: where the version that wins lacks a field, it takes the field of the version that loses,
unless one of the two is a delete. What it means to lack a field (to be null, to be the schema's default, to have been
left out of a partial update) is decided before.

Source: ``BufferedRecordMergerFactory``, ``PartialUpdateHandler`` and ``KeyBasedFileGroupRecordBuffer`` of Hudi 1.x for
the first two; ``OverwriteWithLatestAvroPayload``, ``DefaultHoodieRecordPayload``, ``PartialUpdateAvroPayload`` and
``HoodieMergedLogRecordScanner`` of 0.x for the others. ``PAYLOAD_OF_11`` is what becomes of such a payload where 1.1 or
later asks it about log versions and deletes, too (``CustomPayloadRecordMerger``), ``LATEST_OF_10`` what becomes of one
that looks at no ordering where 1.0 asks it about rows alone (``FileGroupRecordBuffer``).
"""

COMMIT_TIME = "commit time"
EVENT_TIME = "event time"
OVERWRITE_LATEST = "overwrite with latest (0.x)"
DEFAULT_PAYLOAD = "default payload (0.x)"
PAYLOAD_OF_11 = "payload (1.1)"
LATEST_OF_10 = "payload without an ordering (1.0)"
CUSTOM_PAYLOAD = "a user's payload"

Version = tuple[tuple[object, ...], bool, bool]


def is_lower(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    """Whether the left ordering values sort before the right ones."""
    for one, other in zip(left, right, strict=True):
        if one == other:
            continue
        if one is None or other is None:
            return one is None
        return one < other  # type: ignore[operator, no-any-return]
    return False


def later_replaces(rule: str, earlier: Version, later: Version) -> bool:
    """Whether the later of two log versions of a key takes the place of the earlier."""
    ordering, is_delete, always_deletes = later
    if rule == COMMIT_TIME or always_deletes or (rule == PAYLOAD_OF_11 and is_delete):
        return True
    if rule in (EVENT_TIME, LATEST_OF_10) and earlier[2]:
        # A delete that carries an ordering value does not take the place of one that needs none.
        return not is_delete
    if rule != EVENT_TIME and not is_delete and (earlier[1] or rule == LATEST_OF_10):
        return True
    return not is_lower(ordering, earlier[0])


def log_replaces_base(rule: str, base_ordering: tuple[object, ...], log: Version) -> bool:
    """Whether the surviving log version takes the place of the base row (for a delete: removes it)."""
    ordering, is_delete, always_deletes = log
    if rule in (COMMIT_TIME, OVERWRITE_LATEST, CUSTOM_PAYLOAD) or always_deletes:
        return True
    if (is_delete and rule in (DEFAULT_PAYLOAD, PAYLOAD_OF_11)) or (not is_delete and rule == LATEST_OF_10):
        return True
    return not is_lower(ordering, base_ordering)


def survivor(rule: str, versions: list[Version]) -> int:
    """The position of the version that survives among a key's log versions, given in the order of their arrival."""
    kept = 0
    for position in range(1, len(versions)):
        if later_replaces(rule, versions[kept], versions[position]):
            kept = position
    return kept


def field_source(rule: str, versions: list[Version], lacks: list[bool], *, newest: bool) -> int:
    """The position of the version that one field of the survivor comes from.

    ``lacks`` says of each version whether it lacks the field. ``newest`` is for fields that follow the later version of
    any two, whichever of them wins.
    """
    kept = source = 0
    for position in range(1, len(versions)):
        replaces = later_replaces(rule, versions[kept], versions[position])
        if versions[kept][1] or versions[position][1]:
            source = position if replaces else source
        elif newest or (lacks[source] if not replaces else not lacks[position]):
            source = position
        kept = position if replaces else kept
    return source


def field_from_log(*, log_wins: bool, base_lacks: bool, log_lacks: bool) -> bool:
    """Whether one field of the row that a base row and the surviving log version become is that of the log version."""
    return not log_lacks if log_wins else base_lacks
