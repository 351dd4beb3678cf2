"""The stories of records as HTML: every version with its values, why it won or lost, and the row that is left."""

from collections.abc import Iterator, Sequence

from hudi_bridge.display import clipped, counted
from hudi_bridge.pages import header_cell, page_text
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.trace.record_history import FileGroupHistory, RecordHistory
from hudi_bridge.trace.versions import RecordVersion, ordering_text, shown_values

_VERSION_COLUMNS = ("number", "kind", "instant", "ordering", "values", "what became of it", "file")


def story_html(history: RecordHistory) -> str:
    """An ``article`` of one record key."""
    return "".join(_story(history))


def _story(history: RecordHistory) -> Iterator[str]:
    yield f'<article class="record">\n<h3><code>{_text(history.record_key)}</code></h3>\n'
    yield f'<p class="dim">as of {_text(history.instant)}, merged by {_text(history.rule)}</p>\n'
    if not history.file_groups:
        searched = counted(len(history.searched_file_groups), "file group")
        yield f"<p>The record is not in the table; {searched} were searched.</p>\n"
    for group in history.file_groups:
        yield from _group(group)
    unreadable = [place for group in history.searched_file_groups for place in group.unreadable]
    if unreadable:
        places = "".join(f"<li>{_text(place.text())}</li>" for place in unreadable)
        yield f"<p>Unreadable, may have held the record:</p>\n<ul>{places}</ul>\n"
    yield "</article>\n"


def _group(group: FileGroupHistory) -> Iterator[str]:
    place = f"partition {group.partition_path or '(none)'}, file group {group.file_id}"
    yield f"<table><caption>Versions in {_text(place)}</caption>\n<thead><tr>"
    yield from map(header_cell, _VERSION_COLUMNS)
    yield "</tr></thead>\n<tbody>\n"
    for number, version in enumerate(group.versions, start=1):
        verdicts = [*group.verdict_texts(number), *(["wins"] if number == group.winner else [])]
        yield _version(str(number), version, verdicts, is_winner=number == group.winner)
    for uncounted in group.uncounted:
        yield _version("–", uncounted.version, [f"does not count: {uncounted.reason}"], is_winner=False)  # noqa: RUF001
    yield "</tbody></table>\n"
    yield from _result(group)


def _version(number: str, version: RecordVersion, verdicts: Sequence[str], *, is_winner: bool) -> str:
    ordering = ordering_text(version.ordering) if version.ordering and not version.always_deletes else ""
    block = "" if version.block_number is None else f", block {version.block_number} at byte {version.offset:,}"
    earlier = version.commit_time not in (None, version.instant_time)
    written = f", written by {version.commit_time}" if earlier else ""
    carried = [name for name in version.carried if name not in META_COLUMNS]
    shown = shown_values(version.row.select(carried)) if carried else {}
    values = ", ".join(f"{name} = {value}" for name, value in shown.items())
    kind = version.kind if version.delete is None else f"{version.kind} by {version.delete}"
    cells = (ordering, values, "; ".join(verdicts), version.path.rpartition("/")[2] + block + written)
    of_winner = ' class="winner"' if is_winner else ""
    return (
        f'<tr{of_winner}><th scope="row">{number}</th><td>{_text(kind)}</td>'
        f'<td class="whole">{_text(version.instant_time)}</td>'
        + "".join(f"<td>{_text(cell)}</td>" for cell in cells)
        + "</tr>\n"
    )


def _result(group: FileGroupHistory) -> Iterator[str]:
    if not group.result.num_rows:
        yield "<p>No row is left.</p>\n"
        return
    more = "" if group.result.num_rows == 1 else f", the first of {group.result.num_rows:,}"
    yield f"<table><caption>The row{more}</caption>\n<thead><tr>"
    yield from map(header_cell, ("column", "value", "from version"))
    yield "</tr></thead>\n<tbody>\n"
    sources = dict(group.sources)
    for name, value in shown_values(group.result.slice(0, 1)).items():
        source = sources.get(name, "")
        yield f'<tr><th scope="row">{_text(name)}</th><td>{_text(value)}</td><td>{source}</td></tr>\n'
    yield "</tbody></table>\n"


def _text(text: str) -> str:
    return page_text(clipped(text))
