"""What can go wrong with a question, as JSON-RPC says it to the client."""

from __future__ import annotations

import msgspec


class RpcRefusal(Exception):
    """The client gets this error instead of an answer. The message holds no secret."""

    def __init__(self, code: int, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s

    def body(self, call_id: bytes = b"null") -> bytes:
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.retry_after_s:
            error["data"] = {"retry_after_s": round(self.retry_after_s, 3)}
        return b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (call_id, msgspec.json.encode(error))


class ProviderFailed(Exception):
    """One provider gave no useful answer: another one may. `why` holds no secret.

    `at_fault` counts against its health; a limit that it names does not.
    """

    def __init__(
        self,
        why: str,
        *,
        code: str,
        at_fault: bool = True,
        rest_s: float = 0.0,
        hopeless: bool = False,
    ) -> None:
        super().__init__(why)
        self.why = why
        # For the metrics.
        self.code = code
        self.at_fault = at_fault
        # It wants to be left alone for so long.
        self.rest_s = rest_s
        # Not a matter of chance: a refused key will be refused again.
        self.hopeless = hopeless
