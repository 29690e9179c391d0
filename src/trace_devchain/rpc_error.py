"""The one exception that becomes a JSON-RPC error object."""

from __future__ import annotations

from trace_platform.domain.errors import BadInput

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
LIMIT_EXCEEDED = -32005
UNKNOWN_BLOCK = -32000
# As geth has it.
REVERTED = 3


class RpcError(BadInput):
    """`number` is the code that the caller gets; `code` stays Trace's own."""

    code = "json_rpc"

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message, number=number)
        self.number = number


def bad_params(message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, message)
