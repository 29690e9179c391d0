"""JSON-RPC 2.0: a request body in, the answer out; a caller's mistake never raises.

An answer is a list of byte strings that the transport sends one after the other. Rendered blocks
go through uncopied: joining them cost four times as much as all the rest.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from trace_devchain.chain import DevChain
from trace_devchain.methods import METHODS
from trace_devchain.params import shown
from trace_devchain.rpc_error import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcError,
)

Parts: TypeAlias = list[bytes]

MAX_BATCH = 2_000
# Bytes that are no UTF-8, and nesting deeper than the decoder's stack, have errors of their own.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NO_ID = msgspec.Raw(b"")
# How JSON objects, arrays and booleans begin.
_NO_IDENTITY = (b"{", b"[", b"t", b"f")


class Request(msgspec.Struct, gc=False):
    method: str
    params: list[Any] | dict[str, Any] | None = None
    # Kept as it was written: the answer must repeat it, whatever its type.
    id: msgspec.Raw = _NO_ID
    jsonrpc: Literal["2.0"] = "2.0"


_decode_one = msgspec.json.Decoder(Request).decode
_decode_many = msgspec.json.Decoder(list[Request]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_anything = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def answer(chain: DevChain, body: bytes) -> Parts:
    """Empty when the body holds notifications only, which get no answer."""
    try:
        if body.lstrip()[:1] == b"[":
            return _batch(chain, body)
        return _call(chain, _decode_one(body))
    except _UNREADABLE as error:
        return _undecodable(body, error)


def _batch(chain: DevChain, body: bytes) -> Parts:
    try:
        requests = _decode_many(body)
    except msgspec.ValidationError:
        return _mixed_batch(chain, body)
    if not 1 <= len(requests) <= MAX_BATCH:
        return _batch_size_error(len(requests))
    answers = [_call(chain, request) for request in requests]
    return _joined(answers)


def _mixed_batch(chain: DevChain, body: bytes) -> Parts:
    """Some item is not a request: the others are still answered."""
    items = _decode_items(body)
    if len(items) > MAX_BATCH:
        return _batch_size_error(len(items))
    return _joined([_item(chain, bytes(item)) for item in items])


def _item(chain: DevChain, item: bytes) -> Parts:
    try:
        return _call(chain, _decode_one(item))
    except _UNREADABLE as error:
        return _undecodable(item, error)


def _joined(answers: list[Parts]) -> Parts:
    parts: Parts = []
    for answered in answers:
        if answered:
            parts.append(b"," if parts else b"[")
            parts += answered
    if parts:
        parts.append(b"]")
    return parts


def _call(chain: DevChain, request: Request) -> Parts:
    identity = bytes(request.id)
    if identity[:1] in _NO_IDENTITY:
        return _error(b"null", INVALID_REQUEST, "id must be a number, a string or null")
    try:
        result = _result(chain, request)
    except RpcError as error:
        return _error(identity, error.number, error.message) if identity else []
    if not identity:
        return []
    return [b'{"jsonrpc":"2.0","id":' + identity + b',"result":', result, b"}"]


def _result(chain: DevChain, request: Request) -> bytes:
    method = METHODS.get(request.method)
    if method is None:
        raise RpcError(METHOD_NOT_FOUND, f"the method {shown(request.method)} does not exist")
    params = request.params
    if isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an array")
    return method(chain, params or [])


def _undecodable(body: bytes, error: Exception) -> Parts:
    """Broken JSON, or JSON that is no request: the caller can tell which by the code."""
    if not isinstance(error, msgspec.ValidationError):
        return _error(b"null", PARSE_ERROR, f"the body is not JSON: {error}")
    return _error(_id_of(body), INVALID_REQUEST, f"not a JSON-RPC request: {error}")


def _id_of(body: bytes) -> bytes:
    try:
        decoded = _decode_anything(body)
    except _UNREADABLE:
        return b"null"
    identity = decoded.get("id") if isinstance(decoded, dict) else None
    return _encode(identity) if isinstance(identity, str | int | float) else b"null"


def _batch_size_error(size: int) -> Parts:
    return _error(
        b"null", INVALID_REQUEST, f"a batch must hold 1 to {MAX_BATCH} requests, not {size}"
    )


def _error(identity: bytes, number: int, message: str) -> Parts:
    error = _encode({"code": number, "message": message})
    return [b'{"jsonrpc":"2.0","id":' + identity + b',"error":' + error + b"}"]
