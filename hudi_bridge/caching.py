"""A cached property without a lock.

That of Python 3.11 holds one lock for all instances of a class: threads would wait for one another, and for ever if
one of them ends the workers that another belongs to.
"""

import functools
import sys
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

_MISSING = object()


class cached_property(functools.cached_property[T]):  # noqa: N801 - named as the one of functools
    """A property that is computed when first asked for; threads that ask at once may each compute it."""

    if not TYPE_CHECKING and sys.version_info < (3, 12):

        def __get__(self, instance: Any, owner: type | None = None) -> Any:  # noqa: ANN401 - of any class
            if instance is None:
                return self
            values = instance.__dict__
            value = values.get(self.attrname, _MISSING)
            if value is _MISSING:
                value = values[self.attrname] = self.func(instance)
            return value
