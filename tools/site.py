"""MkDocs hooks: pages from outside docs/, one page for each public name, rewritten links, and the version.

Pages link to files by relative paths, as on GitHub. A link leads to the page of the site that the file has become,
otherwise to the repository; a missing file is an error. Public names are those in ``__all__``, read without importing
the module.
"""

import ast
import logging
import posixpath
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "tests/golden/README.md": "golden-tables.md",
}
"""Files outside docs/ that become pages, and the names of the pages."""
MODULES: Mapping[str, tuple[str, ...]] = {
    "hudi_bridge": (),
    "hudi_bridge.samples": (),
    "hudi_bridge.tools": (),
    "hudi_bridge.inspection": (),
    "hudi_bridge.engines": (),
    "hudi_bridge.config": ("CdcMode", "PartitionFieldKind", "TimelineTimezone"),
    "hudi_bridge.changes.split": ("GroupChange",),
    "hudi_bridge.schema.difference": ("SchemaChange", "SchemaChangeKind"),
    "hudi_bridge.schema.file_columns": ("ColumnMapping", "Outcome"),
    "hudi_bridge.schema.infer": ("SchemaAmbiguity", "SchemaAmbiguityKind"),
    "hudi_bridge.schema.internal": ("InternalSchema",),
    "hudi_bridge.splits.file_slice": ("LogFileName",),
    "hudi_bridge.tools.report": (),
    "hudi_bridge.connectors.duckdb": ("attach", "Attached", "ViewPlan", "attach_all", "Lake"),
    "hudi_bridge.connectors.polars": (),
    "hudi_bridge.connectors.spark": (),
    "hudi_bridge.connectors.iceberg.publish": ("publish_table", "PublishedTable"),
    "hudi_bridge.service.server": ("IcebergService", "ServiceOptions"),
    "hudi_bridge.connectors.trino.publish": ("publish_log_records", "Published"),
    "hudi_bridge.connectors.trino.views": ("statements",),
    "hudi_bridge.connectors.trino.explain": ("explain_routes",),
}
"""Modules of the API; where a module has no ``__all__``, its public names."""
_LINK = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:)(?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_INFO = re.compile(r"\A(```\w+) [^\n]*")
_MAY_BREAK = "\u200b"
"""Lets the sidebar break the long name of a module after a dot."""
_CELL = re.compile(r"<td>(.*?)</td>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_CODE = re.compile(r"(?<=<code>)[^<]*(?=</code>)")
_JOINT = re.compile(r"(?<=[._/(=])(?=[^\W\d])|(?<=[a-z])(?=[A-Z])")
"""Where a long name in a cell may be broken."""
_LONG_CELL = 30
"""Characters of a cell that is given a width of its own; see docs/site.css."""
_log = logging.getLogger("mkdocs.hooks.site")


def public_names(module: str) -> list[str]:
    """The public names of a module: from ``MODULES`` or ``__all__``, else its functions and classes without ``_``."""
    if chosen := MODULES[module]:
        return list(chosen)
    path = ROOT.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8"))
    assigned = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    # Where names are imported when they are first used, ``__all__`` is made of the modules that have them.
    if names := assigned.get("_HOMES", assigned.get("__all__")):
        return [name for name in ast.literal_eval(names) if not name.startswith("_")]
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def on_config(config: Any) -> Any:  # noqa: ANN401 - mkdocs has no types for hooks
    """Adds the pages of the API to the navigation, and the version to the name of the site."""
    package = (ROOT / "hudi_bridge" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    config["site_name"] += f" {version}"
    entries = [
        {module.replace(".", f".{_MAY_BREAK}"): [{name: page_of(module, name)} for name in public_names(module)]}
        for module in MODULES
    ]
    for section in config["nav"]:
        if "API" in section:
            section["API"] = ["api/index.md", *entries]
    return config


def on_files(files: Files, config: Any) -> Files:  # noqa: ANN401
    """Adds the pages that are not in docs/."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    overview = ["# API\n", "All public names. What is not here may change without notice.\n"]
    for module in MODULES:
        overview.append(f"## {module}\n")
        for name in public_names(module):
            overview.append(f"- [`{name}`]({posixpath.relpath(page_of(module, name), 'api')})")
            files.append(File.generated(config, page_of(module, name), content=f"# {name}\n\n::: {module}.{name}\n"))
        overview.append("")
    files.append(File.generated(config, "api/index.md", content="\n".join(overview)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:  # noqa: ANN401
    """The page with rewritten links."""
    name = page.file.src_uri
    if name.startswith("api/"):
        return markdown
    if name == PAGES["README.md"]:
        page.meta["hide"] = ["navigation"]  # its section has no other page
    source = next((ours for ours, theirs in PAGES.items() if theirs == name), f"docs/{name}")
    parts = _FENCE.split(markdown)
    # Every second part is a code block; words after its language are for the test that runs the block.
    return "".join(
        _INFO.sub(r"\1", part) if number % 2 else _LINK.sub(partial(rewritten, source=source, name=name), part)
        for number, part in enumerate(parts)
    )


def on_page_content(html: str, **_: object) -> str:
    """The page with cells that fit the screen: longer ones are marked, and names in them may be broken."""

    def fitted(cell: re.Match[str]) -> str:
        start = '<td class="long">' if len(_TAG.sub("", cell[1])) > _LONG_CELL else "<td>"
        return start + _CODE.sub(lambda code: _JOINT.sub("<wbr>", code[0]), cell[1]) + "</td>"

    return _CELL.sub(fitted, html)


def page_of(module: str, name: str) -> str:
    """The path of the page of a public name."""
    return f"api/{module}.{name}.md"


def rewritten(link: re.Match[str], source: str, name: str) -> str:
    """A link in the file ``source``, rewritten for the page ``name`` of the site; its text if it leads elsewhere."""
    path, _, anchor = link["target"].partition("#")
    if not path:
        return link[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if not (ROOT / target).exists():
        _log.warning("%s: %s is not there", source, link["target"])
    if target in PAGES:
        place = PAGES[target]
    elif target.startswith("docs/"):
        place = target.removeprefix("docs/")
    else:
        return link["text"]
    relative = posixpath.relpath(place, posixpath.dirname(name) or ".") + (f"#{anchor}" if anchor else "")
    return f"[{link['text']}]({relative})"
