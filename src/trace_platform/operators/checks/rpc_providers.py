"""The nodes behind a pool, one by one."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit

from trace_platform.drivers.headers import WORKER_TOKEN
from trace_platform.drivers.rpc_endpoint import RpcEndpoint


@dataclass(frozen=True, slots=True)
class Provider:
    """`name` may be shown, the endpoint may not."""

    name: str
    endpoint: RpcEndpoint


def providers(pool: str, endpoint: RpcEndpoint, timeout_s: float = 10.0) -> list[Provider]:
    """As the egress names them; the pool itself where there is no egress, or it names none."""
    token = endpoint.token
    names = _named(endpoint, token.read(), timeout_s) if token is not None else []
    if not names:
        return [Provider(pool, endpoint)]
    return [
        Provider(f"{pool}/{name}", replace(endpoint, url=f"{endpoint.url}?provider={quote(name)}"))
        for name in names
    ]


def _named(endpoint: RpcEndpoint, token: str, timeout_s: float) -> list[str]:
    """What `GET /pools/NAME` says: {"providers": [...]}."""
    connection = _connection(endpoint, timeout_s)
    try:
        headers = {WORKER_TOKEN: token}
        connection.request("GET", urlsplit(endpoint.url).path, headers=headers)
        response = connection.getresponse()
        said = json.loads(response.read(2**20)) if response.status == 200 else {}
    except (OSError, http.client.HTTPException, ValueError):
        return []
    finally:
        connection.close()
    named = said.get("providers", []) if isinstance(said, dict) else []
    return [name for name in named if isinstance(name, str)]


def _connection(endpoint: RpcEndpoint, timeout_s: float) -> http.client.HTTPConnection:
    url = urlsplit(endpoint.url)
    host = url.hostname or ""
    if url.scheme == "https":
        context = ssl.create_default_context(cadata=endpoint.ca)
        return http.client.HTTPSConnection(host, url.port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(host, url.port, timeout=timeout_s)
