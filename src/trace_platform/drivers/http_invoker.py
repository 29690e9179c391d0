"""Functions at a URL: the payload is posted as JSON, and any 2xx accepts it."""

from __future__ import annotations

import asyncio

import httpx

from trace_platform.domain.errors import InvokeFailed
from trace_platform.domain.runtimes import Runtime
from trace_platform.wire.task import Invocation

_JSON = {"Content-Type": "application/json"}
# An answer is read only so that its connection can be used again.
_MAX_ANSWER_BYTES = 64 * 1024


class HttpInvoker:
    """One pool of connections for all functions. A redirect is a refusal: it could lead the task's
    token to somebody else."""

    def __init__(self, accept_s: float = 10.0) -> None:
        self._accept_s = accept_s
        self._http = httpx.AsyncClient(
            follow_redirects=False,
            timeout=accept_s,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,  # neither a proxy nor a .netrc of this machine is asked
        )

    async def invoke(self, runtime: Runtime, payload: Invocation) -> None:
        if runtime.url is None:
            raise _failed(runtime, "has no url", f"set [runtimes.{runtime.name}] url")
        try:
            # Around the whole: a function that answers byte by byte is late, too.
            async with asyncio.timeout(self._accept_s):
                status = await self._post(runtime.url, payload.model_dump_json())
        except (TimeoutError, httpx.TimeoutException):
            said = f"did not accept within {self._accept_s:g} s"
            raise _failed(runtime, said, "answer first, then work") from None
        except Exception as error:
            # By its type alone, and without the cause: their texts may quote the address.
            raise _failed(runtime, f"cannot be reached: {type(error).__name__}") from None
        if not 200 <= status < 300:
            raise _failed(runtime, f"answered {status}", "any 2xx accepts the task")

    async def close(self) -> None:
        await self._http.aclose()

    async def _post(self, url: str, body: str) -> int:
        async with self._http.stream("POST", url, content=body, headers=_JSON) as response:
            read = 0
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > _MAX_ANSWER_BYTES:
                    break
            return response.status_code


def _failed(runtime: Runtime, said: str, hint: str | None = None) -> InvokeFailed:
    return InvokeFailed(f"the function of runtime {runtime.name} {said}", hint=hint)
