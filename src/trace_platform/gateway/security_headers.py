"""What every answer tells a browser."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

# Of what is no page: nothing may be loaded by it, or show it.
_NOTHING = "default-src 'none'; frame-ancestors 'none'"
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "X-Frame-Options": "DENY",
}
_ONLY_TLS = {"Strict-Transport-Security": "max-age=31536000"}


def page_policy(nonce: str) -> str:
    """Scripts come from files alone; styles that scripts make have this answer's nonce."""
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' 'nonce-{nonce}'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "worker-src 'self'",
            "manifest-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ]
    )


def telling(send: Send, request_id: str, *, secure: bool) -> Send:
    """The same, with these headers on the answer."""

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in {**_ALWAYS, **(_ONLY_TLS if secure else {})}.items():
                headers[name] = value
            headers.setdefault("Content-Security-Policy", _NOTHING)
            headers.setdefault("Cache-Control", "no-store")
            headers["X-Request-Id"] = request_id
        await send(message)

    return tell
