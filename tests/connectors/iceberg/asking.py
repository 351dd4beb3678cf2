"""Requests to the catalog service as clients in any language make them, for tables with storage credentials."""

import json
import urllib.error
import urllib.request
from typing import Any

from hudi_bridge.connectors.iceberg.server import IcebergService
from hudi_bridge.connectors.iceberg.vending import VENDED


def asked(service: IcebergService, path: str, token: str | None = "of-all", **headers: str) -> tuple[int, Any, Any]:
    """Status, content and headers of an answer below ``/v1``."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{service.url}/v1/{path}", headers=headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.loads(response.read()), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.status or 0, json.loads(error.read()), error.headers


def asked_for_keys(service: IcebergService, path: str = "namespaces/sales/tables/orders") -> Any:
    status, answer, _ = asked(service, path, **{"X-Iceberg-Access-Delegation": f"remote-signing, {VENDED}"})
    assert status == 200, answer
    return answer
