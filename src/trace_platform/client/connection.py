"""HTTP to the query service: errors by their names, retries that end, cancels that arrive."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx

from trace_platform.client.answer import Answer, named_errors
from trace_platform.client.patience import Deadline, OnWait, Patience
from trace_platform.client.place import Place
from trace_platform.domain.errors import TraceError, Unavailable

_CONNECT_S = 5.0
_CANCEL_S = 3.0


class Connection:
    """Threads may share one. `patience_s`: for how long a busy service is asked again."""

    def __init__(
        self, place: Place, *, patience_s: float = 30.0, on_wait: OnWait | None = None
    ) -> None:
        self._patience_s, self._on_wait = patience_s, on_wait
        self._http = httpx.Client(
            base_url=place.url,
            headers={"Authorization": f"Bearer {place.token}"},
            verify=place.trust(),
            trust_env=False,  # a proxy of the machine must not see the token
        )

    def close(self) -> None:
        self._http.close()

    @contextlib.contextmanager
    def ask(self, query: Mapping[str, Any], deadline: Deadline | None = None) -> Iterator[Answer]:
        """The answer, not read yet. Whoever leaves early, by Ctrl-C too, stops the query.

        `query` is a QueryRequest that the service checks; what is None is left out.

        The deadline is for all of it: waiting for a place, running, reading.
        """
        deadline = deadline or Deadline()
        patience = Patience(self._patience_s, deadline, self._on_wait)
        while True:
            # Another id for each try: the service's history tells them apart.
            query_id = uuid4()
            body = _given(query) | {"query_id": str(query_id)}
            sent = self._send("POST", "/v1/query", deadline, body)
            with self._stopping(query_id), sent as answer:
                refusal = answer.error()
                if refusal is None:
                    yield answer
                    return
            patience.wait_or_raise(refusal, answer.retry_after_s)

    @contextlib.contextmanager
    def follow(self, link: str, deadline: Deadline | None = None) -> Iterator[Answer]:
        """What lies at a link that the service gave."""
        if not link.startswith("/") or link.startswith("//"):
            # The token goes to the service and to nobody else.
            raise Unavailable("the service named a place that is not its own")
        deadline = deadline or Deadline()
        patience = Patience(self._patience_s, deadline, self._on_wait)
        while True:
            with self._send("GET", link, deadline) as answer:
                refusal = answer.error()
                if refusal is None:
                    yield answer
                    return
            patience.wait_or_raise(refusal, answer.retry_after_s)

    def get(self, path: str) -> bytes:
        with self.follow(path) as answer:
            return answer.read()

    def cancel(self, query_id: UUID | str, deadline: Deadline | None = None) -> None:
        """Raise NotFound when it does not run."""
        path = f"/v1/query/{quote(str(query_id), safe='')}"
        with self._send("DELETE", path, deadline) as answer:
            refusal = answer.error()
        if refusal is not None:
            raise refusal

    @contextlib.contextmanager
    def _stopping(self, query_id: UUID) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Hanging up stops it too; but a proxy may keep the line to the service open.
            with contextlib.suppress(TraceError):
                self.cancel(query_id, Deadline(_CANCEL_S))
            raise

    @contextlib.contextmanager
    def _send(
        self,
        method: str,
        path: str,
        deadline: Deadline | None = None,
        body: dict[str, Any] | None = None,
    ) -> Iterator[Answer]:
        deadline = deadline or Deadline()
        with named_errors(self._http.base_url, deadline):
            request = self._http.build_request(
                method,
                path,
                json=body,
                timeout=httpx.Timeout(deadline.left_s(), connect=_CONNECT_S),
            )
            response = self._http.send(request, stream=True)
        try:
            yield Answer(response, deadline)
        finally:
            response.close()


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}
