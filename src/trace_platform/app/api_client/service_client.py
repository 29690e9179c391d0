"""Asks the services of a running instance, as a user does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from trace_platform.app.instance.home import Home
from trace_platform.client.place import Place, local_place
from trace_platform.domain.errors import Unavailable
from trace_platform.wire.refusal import Server

if TYPE_CHECKING:
    import httpx

Answer = TypeVar("Answer", bound=BaseModel)

# A plan or a round of garbage collection looks at much before it answers.
ANSWER_S = 90.0


def get(
    home: Home, kind: type[Answer], path: str, process: str = "dispatcher", /, **query: Any
) -> Answer:
    """What is None in the query is left out."""
    return _ask(home, kind, process, "GET", path, query=query)


def get_soon(
    home: Home, kind: type[Answer], path: str, process: str = "dispatcher", *, answer_s: float
) -> Answer:
    """Of a process that may be stuck: for those who want to know whether it is."""
    return _ask(home, kind, process, "GET", path, answer_s=answer_s)


def post(home: Home, kind: type[Answer], path: str, body: dict[str, Any] | None = None) -> Answer:
    return _ask(home, kind, "dispatcher", "POST", path, body=body)


def segment(text: str) -> str:
    """One segment of a path, whatever a user typed."""
    return quote(text, safe="")


def place_of(home: Home, process: str) -> Place:
    if home.instance_file.exists():
        home.secret("user_token")  # made by whoever of the instance needs it first
    return local_place(home.root, process)


def _ask(
    home: Home,
    kind: type[Answer],
    process: str,
    method: str,
    path: str,
    *,
    body: dict[str, Any] | None = None,
    query: dict[str, Any] | None = None,
    answer_s: float = ANSWER_S,
) -> Answer:
    """Raise the error that the service named."""
    # Here and below: a command that asks nothing, or the query service alone, needs none of it.
    import httpx

    place, server = place_of(home, process), Server(f"the {process}")
    with _client(place, answer_s) as client:
        try:
            response = client.request(
                method,
                path,
                params={name: value for name, value in (query or {}).items() if value is not None},
                json=body,
            )
        except httpx.ConnectError:
            raise place.silent() from None
        except httpx.RequestError as error:
            raise Unavailable(
                f"the {process} broke off: {str(error) or type(error).__name__}",
                hint="see `trace status`, and try again",
            ) from None
    if not response.is_success:
        raise server.error(response.status_code, response.content)
    return server.read(kind, response.content)


def _client(place: Place, answer_s: float) -> httpx.Client:
    import httpx

    return httpx.Client(
        base_url=place.url,
        headers={"Authorization": f"Bearer {place.token}"},
        verify=place.trust(),
        timeout=httpx.Timeout(answer_s, connect=min(answer_s, 5.0)),
        trust_env=False,  # the service is on this machine
    )
