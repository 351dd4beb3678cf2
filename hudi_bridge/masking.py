"""Keeps secrets in URIs out of messages (``masked``) and out of other programs (``without_secrets``).

They are credentials before the host, and access keys, tokens or signatures in the query string.
"""

import re

_MASK = "***"
# A port and a path may come before an @ that is part of the path.
_CREDENTIALS = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^\s:/@'\"]*):(?!\d+/)[^\s@'\"]*@")
_OPTION = re.compile(
    r"(?P<name>[?&][^\s=&'\"]*(?:key|secret|token|sig|pass|pwd|cred|sas|auth(?!ority))[^\s=&'\"]*)=[^\s&'\"]*",
    re.IGNORECASE,
)
_CONTAINER_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes in which the name before the colon or the @ is a container, not a user or an access key."""


def masked(text: str) -> str:
    """The text with the secrets of all its URIs replaced: ``s3://***@bucket/t``, ``...?sig=***``."""
    if "://" not in text:
        return text
    return _OPTION.sub(rf"\g<name>={_MASK}", _CREDENTIALS.sub(_without_password, text))


def _without_password(credentials: "re.Match[str]") -> str:
    return f"{credentials['scheme']}://{_container(credentials)}{_MASK}@"


def _container(credentials: "re.Match[str]") -> str:
    return f"{credentials['user']}:" if credentials["scheme"].lower() in _CONTAINER_SCHEMES else ""


def without_secrets(uri: str) -> str:
    """The path or URI without password and query string, for clients that have their own credentials."""
    if "://" not in uri:
        return uri
    location = uri.partition("?")[0].rstrip("/")
    credentials = _CREDENTIALS.match(location)
    if credentials is None:
        return location
    container = _container(credentials).rstrip(":")
    return f"{credentials['scheme']}://{container}{'@' if container else ''}{location[credentials.end() :]}"


def child(uri: str, *names: str) -> str:
    """The path or URI of a file or folder below another one; the query string stays."""
    location, question_mark, query = uri.partition("?") if "://" in uri else (uri, "", "")
    return "/".join((location.rstrip("/") if names else location, *names)) + question_mark + query
