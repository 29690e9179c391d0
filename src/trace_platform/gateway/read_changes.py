"""The dispatcher's stream of changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pydantic import ValidationError

from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.headers import SERVICE_TOKEN
from trace_platform.gateway.upstream import Upstream
from trace_platform.wire.changes import Changes

# The dispatcher says something, be it an empty line, three times as often.
_SILENCE_S = 15.0
_MAX_LINE = 2**20


async def read_changes(dispatcher: Upstream, service_token: str) -> AsyncGenerator[Changes, None]:
    """The first item comes once the reading has begun; one without changes says that it goes on.
    Raise Unavailable when it ends."""
    headers = [(SERVICE_TOKEN.encode(), service_token.encode())]
    async with dispatcher.request(
        "GET", b"/internal/changes", headers, answer_s=_SILENCE_S
    ) as response:
        if response.status != 200:
            raise Unavailable(f"the dispatcher answered {response.status}", service="dispatcher")
        rest = b""
        async for part in response.aiter_stream():
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                yield _read(line)
            if len(rest) > _MAX_LINE:
                raise Unavailable("the dispatcher's line has no end", service="dispatcher")
    raise Unavailable("the dispatcher ended the stream", service="dispatcher")


def _read(line: bytes) -> Changes:
    try:
        return Changes.model_validate_json(line)
    except ValidationError:
        raise Unavailable("the dispatcher's line is not understood", service="dispatcher") from None
