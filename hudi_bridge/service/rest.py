"""A read-only Iceberg REST catalog.

Clients that can let a service plan their scans get tables without manifests; the header of each request names their
version. Older clients get tables whose snapshots are built.

Source: the Iceberg REST catalog specification, ``rest-catalog-open-api.yaml``.
"""

import errno
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import unquote_plus

import pyarrow as pa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hudi_bridge.connectors.iceberg.slice_cache import Counters
from hudi_bridge.connectors.lakes.tables import Namespace
from hudi_bridge.errors import HudiReadError, QueryError, TableNotFoundError, UnsupportedTableError
from hudi_bridge.service.access import Access
from hudi_bridge.service.catalog import Catalog, PlannedTable
from hudi_bridge.service.credentials import (
    DELEGATION,
    CredentialsRefusedError,
    CredentialsUnavailableError,
    Vended,
    Vending,
    asks_for_credentials,
)
from hudi_bridge.service.gate import Gate, KnownHost, client_address, error_answer, limited_body, reader_of, reason_of
from hudi_bridge.service.planned_snapshots import NoSuchPlanError
from hudi_bridge.service.scans import MOST_BYTES, IncrementalScanError, parse_scan_request, parse_task_request

_HEADER = "x-client-version"
_FIRST_RELEASES: Mapping[str, tuple[int, int]] = {"Apache Iceberg": (1, 11), "PyIceberg": (0, 11)}
_RELEASE = re.compile(r"(?P<client>Apache Iceberg|PyIceberg) (?P<major>\d+)\.(?P<minor>\d+)")


def can_let_plan(headers: Mapping[str, str]) -> bool:
    """Whether a client may ask for plans; False for Trino 476, for example, which reads with Iceberg 1.9.

    Names of ``headers`` are in lower case.
    """
    match = _RELEASE.match(headers.get(_HEADER, ""))
    return match is None or (int(match["major"]), int(match["minor"])) >= _FIRST_RELEASES[match["client"]]


_SEPARATOR = "\x1f"
_MOST_LOADS = 32
_FIRST_ERROR, _FIRST_SERVER_ERROR = 400, 500
_LOG = logging.getLogger(__name__)
_ACCESS = logging.getLogger("hudi_bridge.access")

_PLACES = {"namespaces": 3, "tables": 5}
"""The positions of names in a path without a prefix."""
_NO_PLAN = {
    "fetchScanTasks": "NoSuchPlanTaskException",
    "fetchPlanningResult": "NoSuchPlanIdException",
    "cancelPlanning": "NoSuchPlanIdException",
}
PLANNED = "planned"
"""The warehouse, and then the prefix of paths, of clients whose scans the service plans."""

_NAMESPACE = "/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_PLAN = _TABLE + "/plan"
_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
)
"""The endpoints that are advertised. Some that exist are left out, so that a query costs one request.

With them, clients would look for a view with the table's name first, and report metrics after each scan.
"""
_PLANNING_ENDPOINTS = (
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
)
_CREDENTIALS_ENDPOINT = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
_OVERRIDES = {"rest-metrics-reporting-enabled": "false"}
_PLANNING_MODE = {"scan-planning-mode": "server"}
_NOT_STORED = {"Cache-Control": "no-store"}


class _CatalogError(Exception):
    """Becomes an error response of the catalog."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(status, kind, message)
        self.status = status
        self.kind = kind
        self.message = message


def create_app(
    catalog: Catalog,
    counters: Counters,
    access: Access | None = None,
    *,
    per_second: float | None = None,
    access_log: bool = False,
    vending: Vending | None = None,
) -> Starlette:
    """The service. With ``access``, all paths except ``/health`` and the path of tokens need a reader's bearer token.

    ``per_second`` limits the requests of each reader; with ``access_log``, each request is a line of the log. Readers
    that ask for it get storage credentials by ``vending``.
    """
    service = _Service(catalog, counters, vending)
    routes = [
        # Metrics are named after the routes; routes of the catalog are named after operations of the specification.
        Route("/v1/config", service.config, name="getConfig"),
        *_catalog_routes("/v1", service),
        *_catalog_routes(f"/v1/{PLANNED}", service),
        Route(f"/v1/{PLANNED}{_PLAN}", service.plan, methods=["POST"], name="planTableScan"),
        Route(f"/v1/{PLANNED}{_PLAN}/{{plan}}", service.cancel_plan, methods=["DELETE"], name="cancelPlanning"),
        Route(f"/v1/{PLANNED}{_PLAN}/{{plan}}", service.plan_result, name="fetchPlanningResult"),
        Route(f"/v1/{PLANNED}{_TABLE}/tasks", service.scan_tasks, methods=["POST"], name="fetchScanTasks"),
        Route("/metrics", service.metrics, name="metrics"),
        Route("/health", _health, name="health"),
    ]
    handlers: dict[Any, Callable[..., Response]] = {
        _CatalogError: _error_response,
        HTTPException: _http_error_response,
        NoSuchPlanError: _plan_error_response,
        IncrementalScanError: _plan_error_response,
        CredentialsUnavailableError: service.credentials_error_response,
        CredentialsRefusedError: service.credentials_error_response,
        HudiReadError: service.table_error_response,
        OSError: service.table_error_response,
        pa.ArrowException: service.table_error_response,
        Exception: service.unexpected_error_response,
    }
    middleware = [
        Middleware(_Counting, counters=counters, access_log=access_log),
        Middleware(KnownHost, loopback_only=access is None),
        Middleware(Gate, access=access, per_second=per_second),
    ]
    return Starlette(routes=routes, exception_handlers=handlers, middleware=middleware)


def _catalog_routes(version: str, service: "_Service") -> list[Route]:
    """The routes of the catalog below ``/v1``, or below ``/v1`` and a prefix."""
    return [
        Route(version + "/namespaces", service.namespaces, name="listNamespaces"),
        Route(version + _NAMESPACE, service.namespace, methods=["HEAD"], name="namespaceExists"),
        Route(version + _NAMESPACE, service.namespace, name="loadNamespaceMetadata"),
        Route(version + _NAMESPACE + "/tables", service.tables, name="listTables"),
        Route(version + _TABLE, service.has_table, methods=["HEAD"], name="tableExists"),
        Route(version + _TABLE, service.table, name="loadTable"),
        Route(version + _TABLE + "/credentials", service.credentials, name="loadCredentials"),
        Route(version + _TABLE + "/metrics", _take_metrics, methods=["POST"], name="reportMetrics"),
        Route(version + _NAMESPACE + "/views", service.views, name="listViews"),
        Route(version + _NAMESPACE + "/views/{view}", service.view, name="loadView"),
    ]


class _Service:
    """The request handlers. They are not coroutines: Starlette runs them in threads, and a table that is being built
    does not block other requests.
    """

    def __init__(self, catalog: Catalog, counters: Counters, vending: Vending | None) -> None:
        self._catalog = catalog
        self._counters = counters
        self._vending = vending
        self._loads = BoundedSemaphore(_MOST_LOADS)

    def config(self, request: Request) -> Response:
        overrides, endpoints = _OVERRIDES, list(_ENDPOINTS)
        if self._vending is not None:
            endpoints.append(_CREDENTIALS_ENDPOINT)
        # To a client that cannot, the warehouse changes nothing: it loads tables whose slices are merged.
        if request.query_params.get("warehouse") == PLANNED and can_let_plan(request.headers):
            overrides, endpoints = (
                overrides | _PLANNING_MODE | {"prefix": PLANNED},
                endpoints + list(_PLANNING_ENDPOINTS),
            )
        return JSONResponse({"defaults": {}, "overrides": overrides, "endpoints": endpoints})

    def namespaces(self, request: Request) -> Response:
        parent = request.query_params.get("parent")
        above = tuple(parent.split(_SEPARATOR)) if parent else ()
        if above and not (reader_of(request.scope).may_see(above) and self._catalog.tables.has_namespace(above)):
            raise _no_namespace(above)
        reader = reader_of(request.scope)
        namespaces = self._catalog.tables.namespaces(above)
        return JSONResponse({"namespaces": [namespace for namespace in namespaces if reader.may_see(namespace)]})

    def namespace(self, request: Request) -> Response:
        return JSONResponse({"namespace": self._namespace(request), "properties": {}})

    def tables(self, request: Request) -> Response:
        namespace = self._namespace(request)
        may_read = reader_of(request.scope).may_read(namespace)
        names = self._catalog.tables.table_names(namespace) if may_read else []
        return JSONResponse({"identifiers": [{"namespace": namespace, "name": name} for name in names]})

    def has_table(self, request: Request) -> Response:
        if not self._catalog.has_table(*_table_name(request)):
            raise _no_table()
        return Response(status_code=204)

    def table(self, request: Request) -> Response:
        is_planned = _is_planned(request)
        with self._loading():
            names = _table_name(request)
            published = self._catalog.planned(*names).load() if is_planned else self._catalog.load(*names)
            vended = self._asked_for(request)
        result: dict[str, Any] = {"config": _PLANNING_MODE if is_planned else {}}
        if vended is not None:
            config = vended.config(f"{_raw_path(request).removeprefix('/')}/credentials")
            result = {"config": {**result["config"], **config}, "storage-credentials": vended.storage_credentials()}
        location, more = json.dumps(published.location), json.dumps(result).removeprefix("{")
        body = f'{{"metadata-location":{location},"metadata":{published.metadata},{more}'
        return Response(body, media_type="application/json", headers=None if vended is None else _NOT_STORED)

    def credentials(self, request: Request) -> Response:
        with self._loading():
            vended = self._vended(request)
        credentials = [] if vended is None else vended.storage_credentials()
        return JSONResponse({"storage-credentials": credentials}, headers=_NOT_STORED)

    async def plan(self, request: Request) -> Response:
        asked = parse_scan_request(await limited_body(request, MOST_BYTES))
        return await self._in_thread(lambda: self._plan_answer(request, self._planned(request).plan(asked)))

    async def scan_tasks(self, request: Request) -> Response:
        task = parse_task_request(await limited_body(request, MOST_BYTES))
        return await self._in_thread(lambda: JSONResponse(self._planned(request).snapshots.tasks(task)))

    def plan_result(self, request: Request) -> Response:
        with self._loading():
            return self._plan_answer(request, self._planned(request).snapshots.result(request.path_params["plan"]))

    def cancel_plan(self, request: Request) -> Response:
        self._planned(request).snapshots.cancel(request.path_params["plan"])
        return Response(status_code=204)

    def _plan_answer(self, request: Request, plan: dict[str, Any]) -> Response:
        vended = self._asked_for(request)
        if vended is None:
            return JSONResponse(plan)
        return JSONResponse(plan | {"storage-credentials": vended.storage_credentials()}, headers=_NOT_STORED)

    def _asked_for(self, request: Request) -> Vended | None:
        """The credentials for a table, if the client asks for them with something else."""
        return self._vended(request) if asks_for_credentials(request.headers.get(DELEGATION)) else None

    def _vended(self, request: Request) -> Vended | None:
        table, scratch = self._catalog.places(*_table_name(request), planned=_is_planned(request))
        return None if self._vending is None else self._vending.for_table(table, scratch)

    def _planned(self, request: Request) -> PlannedTable:
        return self._catalog.planned(*_table_name(request))

    async def _in_thread(self, planned: Callable[[], Response]) -> Response:
        def answer() -> Response:
            with self._loading():
                return planned()

        return await run_in_threadpool(answer)

    @contextmanager
    def _loading(self) -> Iterator[None]:
        if not self._loads.acquire(blocking=False):
            raise _CatalogError(503, "ServiceUnavailableException", f"{_MOST_LOADS} tables are being loaded already")
        try:
            yield
        finally:
            self._loads.release()

    def views(self, request: Request) -> Response:
        self._namespace(request)
        return JSONResponse({"identifiers": []})

    def view(self, _: Request) -> Response:
        raise _CatalogError(404, "NoSuchViewException", "there are no views")

    def metrics(self, request: Request) -> Response:
        if reader_of(request.scope).namespaces is not None:
            raise _CatalogError(403, "ForbiddenException", "metrics are for those who may read all namespaces")
        return PlainTextResponse(self._counters.prometheus(), media_type="text/plain; version=0.0.4")

    def table_error_response(self, request: Request, error: Exception) -> Response:
        status, kind, text = 500, type(error).__name__, str(error)
        message = self._catalog.tables.without_paths(text)
        self._counters.add("errors_total", labels=f'error="{kind}"')
        if isinstance(error, TableNotFoundError):
            status, kind, message = 404, "NoSuchTableException", error.reason
        elif isinstance(error, QueryError | UnsupportedTableError):
            status, kind = 400, "BadRequestException"
        elif isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            status, kind, message = 404, "NoSuchTableException", "there is no table of that name"
        elif not isinstance(error, HudiReadError):
            # Messages of other libraries may contain paths that clients must not see.
            message = "the table cannot be read; the log says why"
        return error_answer(request.scope, status, kind, message, logged=text)

    def credentials_error_response(self, request: Request, error: Exception) -> Response:
        self._counters.add("errors_total", labels=f'error="{type(error).__name__}"')
        if isinstance(error, CredentialsUnavailableError):
            message = "storage credentials cannot be had at the moment"
            return error_answer(request.scope, 503, "ServiceUnavailableException", message, logged=str(error))
        message = "storage credentials cannot be had; the log says why"
        return error_answer(request.scope, 500, "InternalServerError", message, logged=str(error))

    def unexpected_error_response(self, request: Request, error: Exception) -> Response:
        self._counters.add("errors_total", labels=f'error="{type(error).__name__}"')
        message = "something went wrong; the log says what"
        return error_answer(request.scope, 500, "InternalServerError", message, logged=repr(error))

    def _namespace(self, request: Request) -> Namespace:
        levels = _namespace(request)
        if not (reader_of(request.scope).may_see(levels) and self._catalog.tables.has_namespace(levels)):
            raise _no_namespace(levels)
        return levels


async def _take_metrics(_: Request) -> Response:
    """Accepts the scan reports of clients and drops them."""
    return Response(status_code=204)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _is_planned(request: Request) -> bool:
    return request.url.path.startswith(f"/v1/{PLANNED}/")


def _namespace(request: Request) -> Namespace:
    return tuple(_part_of_path(request, "namespaces").split(_SEPARATOR))


def _table_name(request: Request) -> tuple[Namespace, str]:
    """The namespace and the name of the table that is asked for.

    Raises:
        _CatalogError: the reader may not read the namespace, and so gets the answer for a table that is not there.
    """
    namespace, name = _namespace(request), _part_of_path(request, "tables")
    if not reader_of(request.scope).may_read(namespace):
        raise _no_table()
    return namespace, name


def _no_table() -> _CatalogError:
    return _CatalogError(404, "NoSuchTableException", "there is no table of that name")


def _part_of_path(request: Request, kind: str) -> str:
    """The decoded part of the path after ``kind``; Java clients encode a space as a plus sign, as in a form."""
    parts = _raw_path(request).split("/")
    if len(parts) != request.url.path.count("/") + 1:
        raise HTTPException(404)
    position = _PLACES[kind] + _is_planned(request)
    return unquote_plus(parts[position])


def _raw_path(request: Request) -> str:
    path: bytes = request.scope["raw_path"]
    return path.decode("ascii", "replace")


def _no_namespace(levels: Namespace) -> _CatalogError:
    return _CatalogError(404, "NoSuchNamespaceException", f"there is no namespace {'.'.join(levels)}")


def _error_response(request: Request, error: Exception) -> Response:
    if not isinstance(error, _CatalogError):
        raise error
    return error_answer(request.scope, error.status, error.kind, error.message)


def _plan_error_response(request: Request, error: Exception) -> Response:
    if isinstance(error, NoSuchPlanError):
        return error_answer(request.scope, 404, _NO_PLAN[_operation(request.scope)], str(error))
    return error_answer(request.scope, 406, "UnsupportedOperationException", str(error))


def _http_error_response(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 405:  # noqa: PLR2004 - an HTTP status
        return error_answer(request.scope, 405, "UnsupportedOperationException", "this catalog cannot be changed")
    return error_answer(request.scope, error.status_code, "NotFoundException", "there is nothing of that name")


def _requested_table(scope: Scope) -> str:
    """The table or else the path of a request, with control characters escaped for the log."""
    names = scope.get("path_params", {})
    if "table" not in names:
        return ascii(scope["path"])
    return ascii(".".join((*names["namespace"].split(_SEPARATOR), names["table"])))


def _operation(scope: Scope) -> str:
    """The name of the route that a request has taken; ``other`` if there is none for its path and method."""
    route = scope.get("route")
    return route.name if isinstance(route, Route) and scope["method"] in (route.methods or ()) else "other"


class _Counting:
    """Counts requests and their time by operation, and logs errors; with ``access_log``, every request."""

    def __init__(self, app: ASGIApp, counters: Counters, *, access_log: bool) -> None:
        self._app = app
        self._access_log = access_log
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def counted(message: Any) -> None:  # noqa: ANN401 - an ASGI message
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception as error:
            scope.setdefault("state", {})["reason"] = repr(error)
            raise
        finally:
            operation = _operation(scope)
            if status >= _FIRST_ERROR:
                level = logging.ERROR if status >= _FIRST_SERVER_ERROR else logging.INFO
                _LOG.log(level, "%s: %d for %s: %s", _requested_table(scope), status, scope["method"], reason_of(scope))
            if self._access_log:
                _log_access(scope, status, time.perf_counter() - start)
            self._counters.add("requests_total", labels=f'operation="{operation}",status="{status}"')
            self._counters.add("request_seconds_total", time.perf_counter() - start, labels=f'operation="{operation}"')


def _log_access(scope: Scope, status: int, seconds: float) -> None:
    address = client_address(scope)
    reader, milliseconds = ascii(reader_of(scope).name), round(1000 * seconds)
    path = ascii(scope["path"])
    _ACCESS.info("%s %s %s %s %d %d ms", address, reader, scope["method"], path, status, milliseconds)
