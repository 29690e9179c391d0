"""Asks the services of a running instance, as a user does."""

from __future__ import annotations

import json
import ssl
from typing import Any

import httpx

from trace_platform.app.home import Home
from trace_platform.app.instance import Instance
from trace_platform.domain.errors import SetupError, Unavailable
from trace_platform.wire.refusal import error_from

# Longer than a query may take, so that the service's own answer arrives first.
_ANSWER_S = 90.0
_NOT_RUNNING = "start it with `trace up`"


def call(
    home: Home,
    process: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    **query: str | int | None,
) -> bytes:
    """The answer's body. Raise the error that the service named."""
    url = _service_url(home, process)
    with _client(home, url) as client:
        try:
            response = client.request(
                method,
                path,
                params={name: value for name, value in query.items() if value is not None},
                json=body,
            )
        except httpx.ConnectError:
            raise Unavailable(
                f"nothing answers at {url}: the instance at {home.root} is not running",
                hint=_NOT_RUNNING,
            ) from None
        except httpx.TransportError as error:
            raise Unavailable(
                f"the {process} broke off: {str(error) or type(error).__name__}",
                hint="see `trace status`, and try again",
            ) from None
    if not response.is_success:
        raise error_from(response.status_code, _json_object(response))
    return response.content


def _client(home: Home, url: str) -> httpx.Client:
    ca = home.root / "tls" / "ca.pem"
    if not ca.exists():
        raise _never_started(home)
    return httpx.Client(
        base_url=url,
        headers={"Authorization": f"Bearer {home.secret('user_token')}"},
        verify=ssl.create_default_context(cafile=ca),
        timeout=httpx.Timeout(_ANSWER_S, connect=5.0),
        trust_env=False,  # the service is on this machine
    )


def _service_url(home: Home, process: str) -> str:
    """Read only: asking must not make an instance or choose its ports."""
    try:
        port = int(json.loads(home.instance_file.read_text())["ports"][process])
    except FileNotFoundError:
        raise _never_started(home) from None
    except (ValueError, KeyError, TypeError):
        raise SetupError(
            f"{home.instance_file} names no port of the {process}", hint=_NOT_RUNNING
        ) from None
    return Instance({process: port}).url(process)


def _never_started(home: Home) -> Unavailable:
    return Unavailable(f"there is no running instance at {home.root}", hint=_NOT_RUNNING)


def _json_object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
