"""Which clients can let a service plan their scans, by the release that they name in each request."""

import re
from collections.abc import Mapping

_HEADER = "x-client-version"
_FIRST_RELEASES: Mapping[str, tuple[int, int]] = {"Apache Iceberg": (1, 11), "PyIceberg": (0, 11)}
_RELEASE = re.compile(r"(?P<client>Apache Iceberg|PyIceberg) (?P<major>\d+)\.(?P<minor>\d+)")


def can_let_plan(headers: Mapping[str, str]) -> bool:
    """False for a client that is known not to ask for plans, such as Trino 476, which reads with Iceberg 1.9.

    Names of ``headers`` are in lower case.
    """
    found = _RELEASE.match(headers.get(_HEADER, ""))
    return found is None or (int(found["major"]), int(found["minor"])) >= _FIRST_RELEASES[found["client"]]
