"""Hadoop's settings, and the NameNodes and mount links that they name.

Settings are the files of the machine, with ``storage_options`` over them. They are read here and handed to the client
whole: it knows neither variables such as ``${user.name}`` in a value nor blanks in a list, and wants a port everywhere.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from xml.etree import ElementTree as ET

from hudi_bridge.errors import QueryError
from hudi_bridge.storage.masking import Location

_FILES = ("core-site.xml", "hdfs-site.xml")
_PREFIXES = ("dfs.", "fs.", "hadoop.", "ipc.")
KERBEROS = ("kerberos_principal", "kerberos_keytab", "kerberos_cache")
"""Options that are arguments of the client, not properties of Hadoop."""
_CONFIG_DIR = "config_dir"
_DEFAULT_PORT = 8020
_VARIABLE = re.compile(r"\$\{([^{}$\s]+)\}")
_MOST_EXPANSIONS = 20
"""Hadoop's own limit, which ends a variable that names itself."""
_INCLUDE = "{http://www.w3.org/2001/XInclude}include"
_FALLBACK = "{http://www.w3.org/2001/XInclude}fallback"
_OF_SERVICE = (
    "dfs.client.failover.proxy.provider",
    "dfs.client.failover.random.order",
    "dfs.client.failover.resolve-needed",
    "dfs.client.failover.resolver.useFQDN",
)
"""Properties whose names end with that of a name service, which the client takes as they are written here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameNodes:
    """What an authority of a URI stands for: ``addresses`` with ports, several for a name ``service``."""

    service: str | None
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopSettings:
    """Properties by name, in any case, as Spark hands over options in lower case; ``folder`` has the files, if any."""

    properties: Mapping[str, str] = field(repr=False)
    kerberos: Mapping[str, str] = field(repr=False)
    folder: Path | None

    @classmethod
    def load(cls, options: Mapping[str, object]) -> Self:
        """The settings of the machine, with these options over them.

        Raises:
            QueryError: an option is unknown, or has an invalid value.
            ValueError: a file of the machine is not one of Hadoop's settings.
            OSError: a file cannot be read.
        """
        texts = {name: _text(name, value) for name, value in options.items()}
        folder = _folder(texts.pop(_CONFIG_DIR, None))
        kerberos = {name: texts.pop(name) for name in KERBEROS if name in texts}
        properties: dict[str, tuple[str, str]] = {}
        for name, value in (*_of_files(folder), *texts.items()):
            properties[name.lower()] = (name, value)
        return cls(properties=_expanded(dict(properties.values())), kerberos=kerberos, folder=folder)

    def get(self, name: str) -> str | None:
        """The value of a property, without blanks around it; None if it is not set."""
        lower = name.lower()
        value = next((text.strip() for key, text in self.properties.items() if key.lower() == lower), None)
        return value or None

    @property
    def with_kerberos(self) -> bool:
        """Whether clients log in by Kerberos; the client takes any other value but ``simple`` likewise."""
        return (self.get("hadoop.security.authentication") or "simple") != "simple"

    def default_authority(self, scheme: str) -> str:
        """The authority for a URI without one.

        Raises:
            ValueError: ``fs.defaultFS`` has none, or another scheme.
        """
        default = self.get("fs.defaultFS") or ""
        uri_scheme, _, rest = default.partition("://")
        authority = rest.partition("/")[0]
        if uri_scheme.lower() != scheme or not authority:
            raise ValueError(f"the URI has no host, and fs.defaultFS is {default or 'not set'} ({self._origin})")
        return authority

    def name_nodes(self, authority: str) -> NameNodes:
        """The NameNodes of a name service, or of a host with or without a port.

        Raises:
            ValueError: the address of a NameNode is not set.
        """
        if "@" in authority:
            raise ValueError("a user before the host, expected none: HADOOP_USER_NAME names the user")
        if re.search(r":\d+$", authority):
            return NameNodes(service=None, addresses=(authority,))
        names = _list(self.get(f"dfs.ha.namenodes.{authority}"))
        if names:
            keys = [f"dfs.namenode.rpc-address.{authority}.{name}" for name in names]
            return NameNodes(service=authority, addresses=tuple(_with_port(self._required(key)) for key in keys))
        if authority.lower() in map(str.lower, _list(self.get("dfs.nameservices"))):
            address = self._required(f"dfs.namenode.rpc-address.{authority}")
            return NameNodes(service=None, addresses=(_with_port(address),))
        return NameNodes(service=None, addresses=(_with_port(authority),))

    def of_client(self, name_nodes: NameNodes) -> dict[str, str]:
        """The properties for a client of these NameNodes, in the order of their addresses."""
        service = name_nodes.service
        if service is None:
            return dict(self.properties)
        names = [f"nn{number}" for number in range(len(name_nodes.addresses))]
        of_service = {f"{key}.{service}": self.get(f"{key}.{service}") for key in _OF_SERVICE}
        return {
            **self.properties,
            **{key: value for key, value in of_service.items() if value is not None},
            **{
                f"dfs.namenode.rpc-address.{service}.{name}": address
                for name, address in zip(names, name_nodes.addresses, strict=True)
            },
            f"dfs.ha.namenodes.{service}": ",".join(names),
        }

    def linked(self, authority: str, path: str) -> str:
        """The URI to which the mount table of ``viewfs://authority`` maps a path, which begins with a slash.

        Raises:
            ValueError: no link leads to the path, or links lie below it.
        """
        table = authority or self.get("fs.viewfs.mounttable.default.name.key") or "default"
        prefix = f"fs.viewfs.mounttable.{table}."
        links: dict[str, str] = {}
        for key, target in self.properties.items():
            if key.lower().startswith(prefix.lower()):
                kind, _, link = key[len(prefix) :].partition(".")
                if kind == "link":
                    links[link.rstrip("/")] = target.strip()
                elif kind.lower() in ("linkfallback", "linkmergeslash"):
                    links.setdefault("", target.strip())
        if below := sorted(link for link in links if link.startswith(f"{path.rstrip('/')}/")):
            raise ValueError(f"links lie below the folder: name one of {', '.join(below)}")
        leading = [link for link in links if path == link or path.startswith(f"{link}/")]
        if not leading:
            expected = f"one below {', '.join(sorted(links))}" if links else f"{prefix}link.PATH to be set"
            raise ValueError(
                f"no link of the mount table {table} leads to {path}, expected {expected} ({self._origin})"
            )
        link = max(leading, key=len)
        names = path[len(link) :].split("/")
        return Location.of_unescaped(links[link]).child(*filter(None, names)).uri()

    def _required(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise ValueError(f"the property {name} is not set ({self._origin})")
        return value

    @property
    def _origin(self) -> str:
        return f"settings of {self.folder}" if self.folder else "HADOOP_CONF_DIR is not set"


def _text(name: str, value: object) -> str:
    if not name.lower().startswith(_PREFIXES) and name not in (*KERBEROS, _CONFIG_DIR):
        expected = f"{', '.join((*KERBEROS, _CONFIG_DIR))}, or a property of Hadoop ({'*, '.join(_PREFIXES)}*)"
        raise QueryError("storage_options", repr(name), expected)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int) or value == "":
        raise QueryError("storage_options", f"another value of {name}", "a text")
    return str(value)


def _folder(given: str | None) -> Path | None:
    if given is not None:
        if not any((Path(given) / name).is_file() for name in _FILES):
            raise QueryError("storage_options", f"{_CONFIG_DIR} {given}", f"a folder with {' or '.join(_FILES)}")
        return Path(given)
    if folder := os.environ.get("HADOOP_CONF_DIR"):
        return Path(folder)
    return Path(home) / "etc" / "hadoop" if (home := os.environ.get("HADOOP_HOME")) else None


def _of_files(folder: Path | None) -> Iterator[tuple[str, str]]:
    for path in (folder / name for name in _FILES) if folder else ():
        if path.is_file():
            yield from _of_file(path)


def _of_file(path: Path) -> Iterator[tuple[str, str]]:
    try:
        root = ET.parse(path).getroot()  # noqa: S314 - a file of the operator's, as Hadoop parses it
    except ET.ParseError as error:
        raise ValueError(f"{path}: found {error}, expected settings of Hadoop as XML") from None
    yield from _of_elements(path, root)


def _of_elements(path: Path, parent: ET.Element) -> Iterator[tuple[str, str]]:
    for element in parent:
        if element.tag == "configuration":
            yield from _of_elements(path, element)
        elif element.tag == "property":
            name, value = (element.findtext(tag) for tag in ("name", "value"))
            if name and value is not None:
                yield name.strip(), value
        elif element.tag == _INCLUDE:
            included = path.parent / element.get("href", "")
            fallback = element.find(_FALLBACK)
            if included.is_file():
                yield from _of_file(included)
            elif fallback is not None:
                yield from _of_elements(path, fallback)
            else:
                raise ValueError(f"{path}: includes {included}, which does not exist")


def _expanded(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with their variables replaced; a variable that nothing sets stays as it is."""

    def value_of(match: "re.Match[str]") -> str:
        name = match[1]
        if name.startswith("env."):
            variable, _, default = name.removeprefix("env.").partition(":-")
            return os.environ.get(variable) or default or match[0]
        return properties.get(name, match[0])

    def expanded(value: str) -> str:
        for _ in range(_MOST_EXPANSIONS):
            value, before = _VARIABLE.sub(value_of, value), value
            if value == before:
                break
        return value

    return {name: expanded(value) for name, value in properties.items()}


def _list(value: str | None) -> list[str]:
    return [name.strip() for name in (value or "").split(",") if name.strip()]


def _with_port(address: str) -> str:
    return address if re.search(r":\d+$", address) else f"{address}:{_DEFAULT_PORT}"
