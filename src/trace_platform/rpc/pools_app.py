"""`/pools/NAME`: plain ASGI, since the bodies are large and only pass through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from urllib.parse import parse_qs

import structlog
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from trace_platform.domain.errors import BadInput, NotFound, TraceError
from trace_platform.drivers.authenticate import refuse_unknown
from trace_platform.drivers.headers import WORKER_TOKEN
from trace_platform.drivers.problem import problem
from trace_platform.rpc.agree import agreed_answer
from trace_platform.rpc.calls import Question, read_question
from trace_platform.rpc.faults import ProviderFailed, RpcRefusal
from trace_platform.rpc.metrics import Metrics
from trace_platform.rpc.relay import Relay
from trace_platform.rpc.reply import MAX_ANSWER_BYTES, Reply
from trace_platform.wire.rpc_codes import UNAVAILABLE

log = structlog.get_logger()

Ask = Callable[[Question], Awaitable[Reply]]

MAX_QUESTION_BYTES = 16 << 20
# At once, of all clients.
MAX_QUESTIONS = 256
_JSON = (b"content-type", b"application/json")


class PoolsApp:
    """Mounted at /pools. Only holders of the worker token are answered."""

    def __init__(
        self,
        relays: Mapping[str, Relay],
        accepted: Callable[[], Sequence[str]],
        metrics: Metrics,
    ) -> None:
        self._relays = relays
        self._accepted = accepted
        self._metrics = metrics
        self._room = asyncio.Semaphore(MAX_QUESTIONS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        try:
            given = headers.get(WORKER_TOKEN.lower().encode(), b"")
            refuse_unknown(given, self._accepted(), WORKER_TOKEN)
            relay = self._relay(scope)
            if scope["method"] == "GET":
                await _told(relay)(scope, receive, send)
                return
            if scope["method"] != "POST":
                await problem(BadInput("send JSON-RPC by POST"), 405)(scope, receive, send)
                return
            ask = _way(scope, relay, packed=b"gzip" in headers.get(b"accept-encoding", b""))
            body = await _body(receive)
        except TraceError as error:
            await problem(error)(scope, receive, send)
            return
        if body is not None:  # else the client left
            await _until_gone(self._in_turn(relay, body, ask, send), receive)

    async def _in_turn(self, relay: Relay, body: bytes, ask: Ask, send: Send) -> None:
        # Answers are held in memory until they are sent.
        async with self._room:
            await self._answer(relay, body, ask, send)

    async def _answer(self, relay: Relay, body: bytes, ask: Ask, send: Send) -> None:
        question: Question | None = None
        try:
            question = read_question(body)
            reply = await ask(question)
        except RpcRefusal as refusal:
            reply = Reply(refusal.body(question.call_id if question else b"null"))
        except Exception:
            log.exception("relay_failed", pool=relay.pool.name)
            said = RpcRefusal(UNAVAILABLE, "a defect of the egress; its log has more")
            reply = Reply(said.body(question.call_id if question else b"null"))
        send_s = relay.pool.timing.send_s
        try:
            async with asyncio.timeout(send_s):
                await self._send(relay.pool.name, reply, send)
        except TimeoutError:
            # The provider or the client, whoever is slow. Without its end: the server hangs up.
            log.warning("answer_cut", pool=relay.pool.name, reason=f"took more than {send_s:g} s")
        finally:
            reply.close()

    async def _send(self, pool: str, reply: Reply, send: Send) -> None:
        headers = [_JSON]
        if reply.encoding is not None:
            headers.append((b"content-encoding", reply.encoding.encode("latin-1")))
        if reply.rest is None:
            headers.append((b"content-length", b"%d" % len(reply.body)))
        elif reply.rest.length is not None:
            headers.append((b"content-length", b"%d" % reply.rest.length))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        given = len(reply.body)
        more = reply.rest is not None
        await send({"type": "http.response.body", "body": reply.body, "more_body": more})
        if reply.rest is not None:
            given += await _stream(reply, send)
        self._metrics.given(pool, given)

    def _relay(self, scope: Scope) -> Relay:
        name = scope["path"].removeprefix(scope.get("root_path", "")).strip("/")
        if name not in self._relays:
            known = ", ".join(sorted(self._relays)) or "none"
            raise NotFound(f"there is no RPC pool '{name[:100]}' (known: {known})")
        return self._relays[name]


async def _stream(reply: Reply, send: Send) -> int:
    """What breaks off breaks off for the client too: it must not look whole."""
    assert reply.rest is not None
    given = 0
    try:
        while chunk := await reply.rest.chunk():
            given += len(chunk)
            if given > MAX_ANSWER_BYTES:
                raise ProviderFailed("answers with too much", code="too_large")
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except ProviderFailed as failure:
        if reply.provider is not None:
            reply.provider.failed(failure)
            log.warning("answer_cut", provider=reply.provider.name, reason=failure.why)
        return given  # without its end: the server hangs up
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return given


async def _body(receive: Receive) -> bytes | None:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_QUESTION_BYTES:
            raise BadInput(f"a question is at most {MAX_QUESTION_BYTES:,} bytes")
        if not message.get("more_body"):
            return b"".join(chunks)


async def _until_gone(work: object, receive: Receive) -> None:
    """A client that leaves takes its question along: nobody would read the answer."""
    assert asyncio.iscoroutine(work)
    working = asyncio.create_task(work)
    gone = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not working.done():
            working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
    if not working.cancelled() and working.exception() is not None:
        raise working.exception() or AssertionError


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _way(scope: Scope, relay: Relay, *, packed: bool) -> Ask:
    """How the URL wants it: whoever is best, what most say, or one provider's own word."""
    asked = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    if not asked:
        return partial(relay.answer, packed=packed)
    if asked == {"agree": ["majority"]}:
        return partial(agreed_answer, relay)
    names = asked.pop("provider", [])
    found = [each for each in relay.pool.providers if [each.name] == names]
    if asked or not found:
        raise BadInput("the only parameters are agree=majority and provider=NAME of the pool")
    return partial(relay.answer_of, found[0])


def _told(relay: Relay) -> JSONResponse:
    """Whom one may ask by name."""
    return JSONResponse({"providers": [each.name for each in relay.pool.providers if each.has_key]})
