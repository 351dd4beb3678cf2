"""Hudi tables among the generic tables of a REST catalog, as Apache Polaris has them.

Namespaces are listed by Iceberg's REST protocol, tables by
``/polaris/v1/{prefix}/namespaces/{namespace}/generic-tables``.

Source: Polaris, ``spec/polaris-catalog-apis/generic-tables-api.yaml``.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hudi_bridge.catalogs.tables import CatalogTable, Namespace
from hudi_bridge.common.imports import needing_extra
from hudi_bridge.common.threads import timeout_seconds
from hudi_bridge.config import QueryType
from hudi_bridge.errors import StorageError
from hudi_bridge.storage.masking import Location, masked

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog as IcebergClient
    from requests import Response, Session

_SECRETS = {"token": "HUDI_BRIDGE_CATALOG_TOKEN", "credential": "HUDI_BRIDGE_CATALOG_CREDENTIAL"}
"""Properties of PyIceberg's client and their environment variables: secrets do not belong on a command line."""
_NOT_FOUND = 404
_TOKEN_IS_OVER = (401, 419)
_LEVELS = "\x1f"


class RestCatalog:
    """The generic tables of the format ``hudi``.

    ``properties`` are passed to PyIceberg's REST client, such as ``warehouse``, ``token`` or ``credential``
    (``ID:SECRET``, for OAuth 2). The last two are taken from ``HUDI_BRIDGE_CATALOG_TOKEN`` and
    ``HUDI_BRIDGE_CATALOG_CREDENTIAL`` if they are not given.
    """

    def __init__(self, url: str, properties: Mapping[str, str]) -> None:
        with needing_extra("iceberg", "pyiceberg", by="rest:"):
            import pyiceberg  # noqa: F401, PLC0415 - an extra, which all methods need
        self._url = url.rstrip("/")
        secrets = {name: os.environ[variable] for name, variable in _SECRETS.items() if os.environ.get(variable)}
        self._properties = {**secrets, **properties}

    @property
    def shown_uri(self) -> str:
        """The URI of the catalog, with secrets masked."""
        return masked(f"rest:{self._url}")

    def namespaces(self, parent: Namespace = ()) -> list[Namespace]:
        """The direct children of a namespace; top-level namespaces for ``()``."""
        from pyiceberg.exceptions import NoSuchNamespaceError  # noqa: PLC0415 - an extra

        with self._errors("list the namespaces"):
            try:
                return sorted(tuple(name) for name in self._client.list_namespaces(parent))
            except NoSuchNamespaceError:
                return []

    def table_names(self, namespace: Namespace) -> list[str]:
        """The names of the Hudi tables of a namespace; none if it does not exist. Sends a request for each table."""
        names: list[str] = []
        token = ""
        with self._errors(f"list the tables of {'.'.join(namespace)!r}"):
            while True:
                answer = self._get(namespace, (), {"pageToken": token} if token else {})
                names += [entry["name"] for entry in answer.get("identifiers", ())]
                token = answer.get("next-page-token") or ""
                if not token:
                    break
        return sorted(name for name in names if self.find(namespace, name) is not None)

    def find(self, namespace: Namespace, name: str) -> CatalogTable | None:
        """The Hudi table of that name; None if there is no table, or it is not a Hudi table."""
        with self._errors(f"find the table {'.'.join((*namespace, name))}"):
            answer = self._get(namespace, (name,), {})
            table = answer.get("table", {})
            location = table.get("base-location") or (table.get("properties") or {}).get("location")
            if table.get("format", "").lower() != "hudi" or not location:
                return None
        return CatalogTable(location=Location.of_unescaped(location).uri(), query_type=QueryType.SNAPSHOT)

    @cached_property
    def _client(self) -> "IcebergClient":
        from pyiceberg.catalog.rest import RestCatalog as IcebergClient  # noqa: PLC0415 - slow to import

        class Client(IcebergClient):
            """A client with a timeout for all requests, including requests for its settings and tokens."""

            def _config_headers(self, session: "Session") -> None:
                # This is called first for each new session.
                session.request = partial(session.request, timeout=timeout_seconds())  # type: ignore[method-assign]
                super()._config_headers(session)

        with self._errors("open the catalog"):
            return Client("hudi_bridge", **self._properties, uri=self._url)

    def _get(self, namespace: Namespace, names: tuple[str, ...], query: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
        """The answer of one request; empty if the requested object does not exist."""
        client = self._client
        prefix = client.properties.get("prefix", "")
        levels = (*filter(None, (prefix,)), "namespaces", _LEVELS.join(namespace), "generic-tables", *names)
        path = "/".join(quote(level, safe="") for level in levels)

        def asked() -> "Response":
            return client._session.get(f"{self._url}/polaris/v1/{path}", params=query)  # noqa: SLF001 - signed in

        answer = asked()
        if answer.status_code in _TOKEN_IS_OVER:
            # The client does the same in its own calls.
            client._refresh_token()  # noqa: SLF001
            answer = asked()
        if answer.status_code == _NOT_FOUND:
            return {}
        answer.raise_for_status()
        return answer.json()

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        from pyiceberg.exceptions import RESTError, UnauthorizedError  # noqa: PLC0415 - an extra
        from requests import RequestException  # noqa: PLC0415

        try:
            yield
        except (
            RequestException,
            RESTError,
            UnauthorizedError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            # The server's text may contain anything, secrets too.
            raise StorageError(self.shown_uri, doing, masked(f"{error}"), errno.EIO) from error
