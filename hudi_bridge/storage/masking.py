"""Keeps secrets in URIs out of messages (``masked``) and away from other programs (``Location``).

Secrets are the user info before the host, and values of the query and the fragment: all of these but the few whose name
is harmless. A URI is parsed for that, whatever signs a secret has. Names that come from outside, such as the folders of
a lake, are never parsed as a part of a URI.
"""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

_MASK = "***"
# The scheme is bounded, so that long texts without one are searched in linear time.
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]{0,20}://"
# A password may have blanks. Within a text, the next scheme begins another URI.
_URI = re.compile(rf"(?P<scheme>\b{_SCHEME})(?P<rest>(?:[^\s/?#:@]*:[^/?#@\n]*@)?(?:(?!{_SCHEME})\S)*)")
# Hadoop leaves out the slashes before an empty authority.
_UNESCAPED_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+:)(//(?P<authority>[^/]*))?(?P<path>(/.*)?)", re.DOTALL)
_AFTER_URI = "'\"),.;:]}>"
_CONTAINER_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes in which the name before the colon or the @ is a container, not a user or an access key."""
_PORT_SCHEMES = ("file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "http", "https", "hive", "thrift")
"""Schemes in which digits after the host are a port; in others, they begin a password."""
_PARSED_SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "hdfs", "viewfs")
"""Schemes whose clients parse URIs as RFC 3986 says, so that names in them are escaped."""
_UNESCAPED = "-._~!$&'()*+,;=:@/"
_HARMLESS = frozenset(
    (
        "allow_bucket_creation",
        "allow_bucket_deletion",
        "allow_delayed_open",
        "anonymous",
        "blob_storage_authority",
        "buffer_size",
        "connect_timeout",
        "default_block_size",
        "dfs_storage_authority",
        "enable_tls",
        "endpoint_override",
        "force_virtual_addressing",
        "project_id",
        "region",
        "replication",
        "request_timeout",
        "retry_limit_seconds",
        "scheme",
        "smart_defaults",
        "warehouse",
    )
)
"""The names of options in a query whose values may be shown: those of Arrow's clients, and of catalogs."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of one URI: ``scheme`` with its slashes, ``query`` and ``fragment`` with the sign before them."""

    scheme: str
    user: str | None
    address: str
    query: str = ""
    fragment: str = ""

    @classmethod
    def of(cls, scheme: str, rest: str) -> Self:
        """Parses what follows the ``scheme``."""
        user, authority = None, re.split("[/?#]", rest, maxsplit=1)[0]
        if "@" in authority:
            user = authority.rpartition("@")[0]
        elif ":" in authority and "@" in rest and not cls._has_port(scheme, authority):
            # A sign in the password ended the authority; all up to the last @ belongs to the password.
            user = rest.rpartition("@")[0]
        address = rest if user is None else rest[len(user) + 1 :]
        address, hash_sign, fragment = address.partition("#")
        address, question_mark, query = address.partition("?")
        return cls(scheme, user, address, question_mark + query, hash_sign + fragment)

    @staticmethod
    def _has_port(scheme: str, authority: str) -> bool:
        return scheme.removesuffix("://").lower() in _PORT_SCHEMES and authority.partition(":")[2].isdigit()

    @property
    def is_of_container(self) -> bool:
        return self.scheme.removesuffix("://").lower() in _CONTAINER_SCHEMES

    @property
    def shown_user(self) -> str:
        """What is shown before the host."""
        if self.user is None:
            return ""
        container, colon, _ = self.user.partition(":")
        if self.is_of_container:
            return f"{container}{colon}{_MASK if colon else ''}@"
        return f"{_MASK}@"

    @property
    def public_user(self) -> str:
        """What other programs need before the host."""
        container = (self.user or "").partition(":")[0] if self.is_of_container else ""
        return f"{container}@" if container else ""

    @property
    def shown_options(self) -> str:
        """The query and the fragment without secrets."""
        query = "".join(map(_shown_option, re.split("([&?])", self.query)))
        # A fragment without a value is the name of a table in a catalog.
        fragment = "".join(map(_shown_option, re.split("([&#])", self.fragment))) if "=" in self.fragment else None
        return query + (self.fragment if fragment is None else fragment)

    def shown(self) -> str:
        """The URI without secrets."""
        return f"{self.scheme}{self.shown_user}{self.address}{self.shown_options}"


def _shown_option(option: str) -> str:
    name, sign, value = option.partition("=")
    if option in ("", "?", "&", "#") or (name in _HARMLESS and "@" not in value):
        return option
    # What has no name may be a secret as well.
    return f"{name}={_MASK}" if sign else _MASK


def masked(text: str) -> str:
    """The text with the secrets of all its URIs replaced: ``s3://***@bucket/t``, ``...?sig=***``."""
    return _URI.sub(_masked_uri, text) if "://" in text else text


def _masked_uri(match: "re.Match[str]") -> str:
    rest = match["rest"].rstrip(_AFTER_URI)
    return _Parts.of(match["scheme"], rest).shown() + match["rest"][len(rest) :]


def without_secrets(uri: str) -> str:
    """The path or URI without user and query string, for clients that have their own credentials."""
    return Location(uri).public()


@dataclass(frozen=True, slots=True)
class Location:
    """A folder: the path or URI that the operator gave, and the names of folders below it, which may come from outside.

    ``given`` may hold secrets. If it ``is_path``, no sign in it separates a query: it belongs to a file system that was
    given too.
    """

    given: str
    names: tuple[str, ...] = ()
    is_path: bool = False

    @classmethod
    def of_unescaped(cls, uri: str) -> Self:
        """The location of a URI in which nothing is escaped and no query is, as Hadoop and catalogs write them."""
        match = _UNESCAPED_URI.fullmatch(uri)
        if match is None:
            return cls(uri)
        return cls(f"{match['scheme']}//{match['authority'] or ''}", tuple(filter(None, match["path"].split("/"))))

    def child(self, *names: str) -> "Location":
        """The location of a folder below this one."""
        return Location(self.given, (*self.names, *names), self.is_path)

    @property
    def _parts(self) -> _Parts | None:
        """The parts of the URI; None for a path."""
        scheme, sign, rest = self.given.partition("://")
        if not sign:
            return None
        if self.is_path:
            user, at, address = rest.rpartition("@") if "@" in rest.partition("/")[0] else ("", "", rest)
            return _Parts(f"{scheme}://", user if at else None, address)
        return _Parts.of(f"{scheme}://", rest)

    def uri(self, path: str = "") -> str:
        """What opens the folder, or a file below it; secrets included."""
        parts = self._parts
        if parts is None:
            return _joined(self.given, (*self.names, path))
        names: tuple[str, ...] = (*self.names, path)
        if parts.scheme.removesuffix("://").lower() in _PARSED_SCHEMES and not self.is_path:
            names = tuple(quote(name, safe=_UNESCAPED) for name in names)
        options = parts.query + parts.fragment
        return _joined(self.given[: len(self.given) - len(options)], names) + options

    def shown(self, path: str = "") -> str:
        """The path or URI of the folder, or of a file below it, without secrets, for messages."""
        parts = self._parts
        if parts is None:
            return _joined(self.given, (*self.names, path))
        return _joined(f"{parts.scheme}{parts.shown_user}{parts.address}", (*self.names, path)) + parts.shown_options

    def public(self, path: str = "") -> str:
        """The path or URI for clients that have their own credentials; nothing in it is escaped."""
        parts = self._parts
        if parts is None:
            return _joined(self.given, (*self.names, path))
        is_escaped = parts.scheme.removesuffix("://").lower() in _PARSED_SCHEMES and not self.is_path
        address = (unquote(parts.address) if is_escaped else parts.address).rstrip("/")
        return _joined(f"{parts.scheme}{parts.public_user}{address}", (*self.names, path))

    def mask(self, text: str) -> str:
        """A text about this folder without secrets, also where the URI is one that cannot be parsed."""
        if "://" not in self.given:
            return text
        scheme, _, rest = self.given.partition("://")
        is_ambiguous = scheme.lower() not in (*_CONTAINER_SCHEMES, *_PORT_SCHEMES) and "@" in rest
        shown = f"{scheme}://{_MASK}@{rest.rpartition('@')[2]}" if is_ambiguous else self.given
        return masked(text.replace(self.given, shown))


def _joined(folder: str, names: tuple[str, ...]) -> str:
    """The folder with names below it; as it is if there are none."""
    path = "/".join(filter(None, names))
    base = folder.rstrip("/")
    return f"{base}{'//' if base.endswith(':') else ''}/{path}" if path else folder
