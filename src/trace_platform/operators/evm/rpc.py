"""A synchronous JSON-RPC client: keep-alive, batches, bounded retries.

The URL may hold a key in its userinfo, path or query. Errors name `scheme://host:port` only,
and what a node says is scrubbed of those parts before it is repeated.
"""

from __future__ import annotations

import http.client
import random
import re
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from urllib.parse import SplitResult

import msgspec

from trace_platform.domain.errors import (
    MalformedBlock,
    ProvidersDisagree,
    RpcUnreachable,
    WrongChain,
)
from trace_platform.domain.evm_hex import quantity
from trace_platform.drivers.headers import WORKER_TOKEN
from trace_platform.drivers.node_url import (
    login,
    parse_url,
    reason,
    retry_after_s,
    scrubbed,
    secrets_in,
    target,
)
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.wire.rpc_codes import (
    BAD_PARAMS,
    DISAGREE,
    LIMITS,
    METHOD_MISSING,
    NOT_THERE_WORDS,
    TOO_LARGES,
    UNAVAILABLE,
)
from trace_platform.wire.task import MAX_RETRY_AFTER_S

T = TypeVar("T")

_TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 522, 524})
_INT64_MAX = 2**63 - 1
_BACKOFF_S = (0.2, 0.6, 1.8)
# Before those, of what a node answers with null: nodes behind one address seldom lack it twice.
_QUICK_S = (0.05, 0.1)
# An answer that keeps coming may take so many times the time-out: a slow line is not a silent one.
_TIMEOUTS_PER_ANSWER = 5
_PIECE_BYTES = 1 << 20


class RpcFault(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""
    data: Any = None

    @property
    def retry_after_s(self) -> float:
        """As the egress says it; 0 when nobody does."""
        told = self.data.get("retry_after_s") if isinstance(self.data, dict) else None
        return float(max(0, min(told, MAX_RETRY_AFTER_S))) if isinstance(told, int | float) else 0.0


class Answer(Protocol):
    """What a batch's structs have in common; each adds a typed `result`."""

    id: int | None
    error: RpcFault | None


A = TypeVar("A", bound=Answer)
Body = bytes | bytearray


class AnswerTooLarge(Exception):
    """The node, or our own limit, refuses an answer of this size: ask for less at once."""


class _Transient(Exception):
    def __init__(self, what: str, retry_after_s: float = 0.0) -> None:
        super().__init__(what)
        self.what = what
        self.retry_after_s = retry_after_s


class RpcClient:
    """Thread-safe: each call borrows a connection, and returns it when the answer was whole.

    A node may be silent for `timeout_s`. Between the tries of one question the client waits no
    longer than `patience_s` in all; a node that wants to be left alone for longer is left to the
    next attempt, and the error says for how long.
    """

    def __init__(
        self,
        endpoint: RpcEndpoint | str,
        *,
        timeout_s: float = 60.0,
        backoff_s: Sequence[float] = _BACKOFF_S,
        patience_s: float = 60.0,
        max_bytes: int = 256 * 2**20,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        given = RpcEndpoint(endpoint) if isinstance(endpoint, str) else endpoint
        self._url = parse_url(given.url)
        # What errors call it.
        self.endpoint = given.shown
        # The egress's URL holds none, and says which pool it is.
        self._secrets = secrets_in(self._url) if given.token is None else []
        self._timeout_s = timeout_s
        self._backoff_s = tuple(backoff_s)
        self._patience_s = patience_s
        self._max_bytes = max_bytes
        self._sleep = sleep
        self._now = now
        self._headers = _headers(self._url)
        if given.token is not None:
            self._headers[WORKER_TOKEN] = given.token.read()
        secure = self._url.scheme == "https"
        self._tls = ssl.create_default_context(cadata=given.ca) if secure else None
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False
        self._lock = threading.Lock()

    def call(self, method: str, *params: Any) -> Any:
        answers = self.batch([(method, params)], _any_batch)
        error = answers[0].error
        if error is not None:
            raise RpcUnreachable(f"{self.endpoint} refuses {method}: {self._scrub(error.message)}")
        return answers[0].result

    def batch(
        self,
        calls: Sequence[tuple[str, Sequence[Any]]],
        decoder: msgspec.json.Decoder[list[A] | A],
    ) -> list[A]:
        """The answers in the order of the calls; an answer may carry the node's error."""
        body = _encode(calls)
        return self._retrying(lambda: self._ask(body, len(calls), decoder))

    def patient_batch(
        self,
        calls: Sequence[tuple[str, Sequence[Any]]],
        decoder: msgspec.json.Decoder[list[A] | A],
        missing: Callable[[Sequence[A]], Sequence[int]],
    ) -> list[A]:
        """As `batch`, but calls that have no useful answer are made again, they alone, a few times.
        `missing` gives their places among the answers. Of each the last answer counts."""
        answers = self.batch(calls, decoder)
        for pause_s in (*_QUICK_S, *self._backoff_s):
            places = missing(answers)
            if not places:
                break
            self._sleep(_jittered(pause_s))
            again = self.batch([calls[place] for place in places], decoder)
            for place, answer in zip(places, again, strict=True):
                answers[place] = answer
        return answers

    def number(self, method: str) -> int:
        """Of a method without parameters that tells a block's number or the chain's id. Raise
        MalformedBlock for what is none."""
        try:
            found = quantity(self.call(method), method)
            if found > _INT64_MAX:
                raise ValueError(f"{method} is {found}: it does not fit 64 bits")
        except ValueError as error:
            raise MalformedBlock(f"{self.endpoint}: {error}") from None
        return found

    def check_chain(self, chain_id: int) -> None:
        served = self.number("eth_chainId")
        if served != chain_id:
            raise WrongChain(
                f"the job asks for chain {chain_id}, {self.endpoint} serves chain {served}",
                hint="correct chain_id, or point the rpc_pool at a node of that chain",
                expected=chain_id,
                served=served,
            )

    def refusal(self, fault: RpcFault, what: str) -> RpcUnreachable:
        return RpcUnreachable(f"{self.endpoint} refuses {what}: {self._scrub(fault.message)}")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _retrying(self, ask: Callable[[], T]) -> T:
        patience_s = self._patience_s
        for backoff_s in (*self._backoff_s, None):
            try:
                return ask()
            except _Transient as fault:
                wait_s = max(_jittered(backoff_s or 0.0), fault.retry_after_s)
                patience_s -= wait_s
                if backoff_s is None or patience_s < 0:
                    # Not chained: the cause may hold the URL.
                    raise self._unreachable(fault) from None
                self._sleep(wait_s)
        raise AssertionError("the last turn returns or raises")

    def _unreachable(self, fault: _Transient) -> RpcUnreachable:
        facts = {"retry_after_s": fault.retry_after_s} if fault.retry_after_s else {}
        # A node that is away, or wants to be left alone: the work waits for it.
        return RpcUnreachable(
            f"{self.endpoint} {fault.what}",
            hint="check that the node runs and that the pool's URL is right",
            outage=True,
            **facts,
        )

    def _ask(
        self, body: bytes, n_calls: int, decoder: msgspec.json.Decoder[list[A] | A]
    ) -> list[A]:
        raw = self._post(body)
        try:
            answers = decoder.decode(raw)
        except msgspec.ValidationError as error:
            # Its text names a path and types, never values.
            raise MalformedBlock(f"{self.endpoint} gave a malformed answer: {error}") from None
        except msgspec.DecodeError:
            raise _Transient("answered with something that is not JSON") from None
        if not isinstance(answers, list):
            answers = [answers]
        for answer in answers:
            if answer.error is not None:
                self._raise_if_limit(answer.error)
        return self._in_order(answers, n_calls)

    def _in_order(self, answers: list[A], n_calls: int) -> list[A]:
        ids = [answer.id for answer in answers]
        if ids == list(range(n_calls)):
            return answers
        if len(answers) == 1 and answers[0].error is not None:
            raise self.refusal(answers[0].error, f"a batch of {n_calls} calls")
        by_id = {answer.id: answer for answer in answers}
        if len(by_id) < len(answers):
            raise MalformedBlock(f"{self.endpoint} answered a call of a batch twice")
        if by_id.keys() != set(range(n_calls)):
            raise MalformedBlock(
                f"{self.endpoint} answered {len(by_id)} of the {n_calls} calls of a batch"
            )
        return [by_id[i] for i in range(n_calls)]

    def _raise_if_limit(self, fault: RpcFault) -> None:
        if fault.code == DISAGREE:
            raise ProvidersDisagree(f"{self.endpoint}: {self._scrub(fault.message)}")
        if fault.code == UNAVAILABLE:
            # The egress has asked every provider, more than once.
            said = f"{self.endpoint}: {self._scrub(fault.message)}"
            raise RpcUnreachable(said, hint="trace rpc status shows why", outage=True)
        if fault.code in TOO_LARGES or "too large" in fault.message.lower():
            raise AnswerTooLarge(self._scrub(fault.message))
        if fault.code in LIMITS:
            said = f"limits the rate of calls: {self._scrub(fault.message)}"
            raise _Transient(said, fault.retry_after_s)

    def _post(self, body: bytes) -> Body:
        with self._connection() as connection:
            try:
                response, raw = self._round_trip(connection, body)
            except TimeoutError:
                raise _Transient(f"did not answer within {self._timeout_s:g} s") from None
            except (OSError, http.client.HTTPException) as error:
                raise _Transient(f"is unreachable ({reason(error)})") from None
            self._raise_for_status(response)
            if response.headers["Content-Encoding"] == "gzip":
                raw = self._unpack(raw)
            if len(raw) > self._max_bytes:
                raise AnswerTooLarge(f"more than {self._max_bytes} bytes")
            return raw

    def _round_trip(
        self, connection: http.client.HTTPConnection, body: bytes
    ) -> tuple[http.client.HTTPResponse, Body]:
        was_open = connection.sock is not None
        try:
            return self._send(connection, body)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            if not was_open:
                raise
            connection.close()  # it idled too long and the node hung up: ask on a new one
            return self._send(connection, body)

    def _send(
        self, connection: http.client.HTTPConnection, body: bytes
    ) -> tuple[http.client.HTTPResponse, Body]:
        answer_s = self._timeout_s * _TIMEOUTS_PER_ANSWER
        deadline = self._now() + answer_s
        connection.request("POST", target(self._url), body, self._headers)
        response = connection.getresponse()
        raw = bytearray()
        # More than allowed tells a full answer from a cut one.
        while len(raw) <= self._max_bytes and (piece := response.read1(_PIECE_BYTES)):
            raw += piece
            if self._now() > deadline:
                raise RpcUnreachable(
                    f"{self.endpoint} did not send all of its answer within {answer_s:g} s",
                    hint="lower batch_blocks, or raise timeout_s",
                )
        response.close()
        return response, raw

    def _unpack(self, raw: Body) -> bytes:
        try:
            return zlib.decompressobj(wbits=31).decompress(raw, self._max_bytes + 1)
        except zlib.error:
            raise _Transient("answered with damaged gzip data") from None

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else self._connect()
        try:
            yield connection
        except BaseException:
            # What is left on the wire belongs to the old question.
            connection.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._tls is not None:
            return http.client.HTTPSConnection(
                host, port, timeout=self._timeout_s, context=self._tls
            )
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _raise_for_status(self, response: http.client.HTTPResponse) -> None:
        if response.status in _TRANSIENT_STATUS:
            raise _Transient(
                f"answered HTTP {response.status}", retry_after_s(response.headers["Retry-After"])
            )
        if response.status == 413:
            raise AnswerTooLarge("HTTP 413")
        if response.status in (401, 403):
            raise RpcUnreachable(
                f"{self.endpoint} refuses the key (HTTP {response.status})",
                hint="check the key in the rpc_pool's URL",
            )
        if response.status != 200:
            raise RpcUnreachable(f"{self.endpoint} answered HTTP {response.status}")

    def _scrub(self, text: str) -> str:
        return scrubbed(text, self._secrets)


def majority_client(endpoint: RpcEndpoint, *, timeout_s: float = 60.0) -> RpcClient | None:
    """Asks most of the pool's nodes; None for one node, which has its own word alone."""
    agreeing = endpoint.agreeing()
    return RpcClient(agreeing, timeout_s=timeout_s) if agreeing != endpoint else None


class _AnyAnswer(msgspec.Struct):
    id: int | None = None
    result: Any = None
    error: RpcFault | None = None


_any_batch = msgspec.json.Decoder(list[_AnyAnswer] | _AnyAnswer)


def is_missing_method(fault: RpcFault) -> bool:
    """By its code, or by the words of providers that use another one."""
    words = r"method.*(not (found|supported|available)|does not exist)|unsupported method"
    return fault.code == METHOD_MISSING or re.search(words, fault.message, re.I) is not None


def is_bad_params(fault: RpcFault) -> bool:
    """The node does not take the parameters in this form."""
    words = r"invalid (argument|param)|cannot unmarshal"
    return fault.code == BAD_PARAMS or re.search(words, fault.message, re.I) is not None


def is_not_there(fault: RpcFault) -> bool:
    """The node says that it does not have it: it may be new, or another node may have it."""
    return NOT_THERE_WORDS.search(fault.message) is not None


def _jittered(seconds: float) -> float:
    """The partitions of a range would otherwise all come back together."""
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311


def _encode(calls: Sequence[tuple[str, Sequence[Any]]]) -> bytes:
    requests = [
        {"jsonrpc": "2.0", "id": i, "method": method, "params": params}
        for i, (method, params) in enumerate(calls)
    ]
    # One call goes without a batch around it: that works with every node.
    return msgspec.json.encode(requests if len(requests) > 1 else requests[0])


def _headers(url: SplitResult) -> dict[str, str]:
    # On loopback and private networks unpacking costs more than the bytes it saves.
    packed = {"Accept-Encoding": "gzip"} if url.scheme == "https" else {}
    headers = {"Content-Type": "application/json", "User-Agent": "trace", **packed}
    authorization = login(url)
    return headers | ({"Authorization": authorization} if authorization else {})
