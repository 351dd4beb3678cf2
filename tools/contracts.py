"""A contract for import-linter that lists what may be imported, so that a new module is closed until it is listed."""

import sys
from collections.abc import Iterable

import grimp
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.helpers import module_expressions_to_modules

_SHOWN_LINES = 3


class AllowedContract(Contract):
    """The source packages import nothing but themselves, the standard library, and what is allowed.

    Configuration options:
        - source_modules: packages or modules, each with all that is below it.
        - allowed_modules: what they may import, each with all that is below it.
        - external: whether packages that others publish are refused, too; they are not by default.
    """

    type_name = "allowed"

    source_modules = fields.ListField(subfield=fields.ModuleExpressionField())
    allowed_modules = fields.ListField(subfield=fields.ModuleExpressionField(), required=False, default=[])
    external = fields.BooleanField(required=False, default=False)

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - as importlinter calls it
        """Looks at the direct imports of each source module."""
        sources = _names(graph, self.source_modules)
        allowed = sources | _names(graph, self.allowed_modules)
        roots = {name.partition(".")[0] for name in sources}
        illegal = [
            (importer, imported, _lines(graph, importer, imported))
            for importer in sorted(sources)
            for imported in sorted(graph.find_modules_directly_imported_by(importer) - allowed)
            if _counts(imported.partition(".")[0], roots, external=bool(self.external))
        ]
        return ContractCheck(kept=not illegal, metadata={"illegal": illegal})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints the imports that are not allowed."""
        for importer, imported, lines in check.metadata["illegal"]:
            output.print_error(f"- {importer} -> {imported} (l.{lines})", bold=False)
        output.new_line()


def _names(graph: grimp.ImportGraph, expressions: object) -> set[str]:
    modules: Iterable[object] = module_expressions_to_modules(graph, expressions, as_packages=True)  # type: ignore[arg-type]
    return {str(getattr(module, "name")) for module in modules}  # noqa: B009 - import-linter has no types for it


def _counts(package: str, roots: set[str], *, external: bool) -> bool:
    return package in roots or (external and package not in sys.stdlib_module_names)


def _lines(graph: grimp.ImportGraph, importer: str, imported: str) -> str:
    details = graph.get_import_details(importer=importer, imported=imported)
    return ", ".join(str(detail["line_number"]) for detail in details[:_SHOWN_LINES])
