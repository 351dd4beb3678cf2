"""The cases, a module for each group or theme: importing this registers all of them."""

from importlib import import_module

from tests.golden.generate.registry import CASES

__all__ = ["CASES"]

_MODULES = (
    *("versions", "merge_rules", "log_formats", "slices", "keys", "types", "evolution", "indexes", "kinds"),
    *("index_types", "concurrency", "services", "migrations", "sql", "partitions", "extremes", "modes"),
    "values",
    "operations",
)
for _module in _MODULES:
    import_module(f"{__name__}.{_module}")
