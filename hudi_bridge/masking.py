"""Secrets in URIs, which may be read with and not be shown.

A URI may carry credentials before its host, and access keys, tokens or signatures among its options. They stay in what
files are opened with, which are a ``Storage`` and the splits for other processes. All that is for eyes or for other
programs goes through ``masked`` or ``without_secrets``.
"""

import re

_MASK = "***"
# A port and a path may come before an @ that is part of the path.
_CREDENTIALS = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^\s:/@'\"]*):(?!\d+/)[^\s@'\"]*@")
_OPTION = re.compile(
    r"(?P<name>[?&][^\s=&'\"]*(?:key|secret|token|sig|pass|pwd|cred|sas|auth(?!ority))[^\s=&'\"]*)=[^\s&'\"]*",
    re.IGNORECASE,
)
_SCHEMES_OF_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")
"""Those where the name before the colon, or before the @, is part of the place; with others it is a key, or a user."""


def masked(text: str) -> str:
    """A text in which the secrets of all URIs are stars: ``s3://***@bucket/t``, ``...?sig=***``."""
    if "://" not in text:
        return text
    return _OPTION.sub(rf"\g<name>={_MASK}", _CREDENTIALS.sub(_without_password, text))


def _without_password(found: "re.Match[str]") -> str:
    return f"{found['scheme']}://{_container(found)}{_MASK}@"


def _container(found: "re.Match[str]") -> str:
    return f"{found['user']}:" if found["scheme"].lower() in _SCHEMES_OF_CONTAINERS else ""


def without_secrets(uri: str) -> str:
    """A path or URI for clients with credentials of their own: without a password, and without options."""
    if "://" not in uri:
        return uri
    place = uri.partition("?")[0].rstrip("/")
    found = _CREDENTIALS.match(place)
    if found is None:
        return place
    container = _container(found).rstrip(":")
    return f"{found['scheme']}://{container}{'@' if container else ''}{place[found.end() :]}"


def child(uri: str, *names: str) -> str:
    """A path or URI below another, whose options stay."""
    place, sign, options = uri.partition("?") if "://" in uri else (uri, "", "")
    return "/".join((place.rstrip("/") if names else place, *names)) + sign + options
