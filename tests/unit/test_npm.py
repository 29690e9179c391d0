"""npm, where it does not know the certificate of its registry."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.npm import npm
from trace_platform.drivers.lite.certificates import ensure_certificates


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[str]:
    """A registry whose certificate nobody knows."""
    tls = ensure_certificates(tmp_path / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.server, tls.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"https://localhost:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_unknown_certificate_is_named_soon(
    stranger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NODE_EXTRA_CA_CERTS", "npm_config_cafile"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("npm_config_userconfig", str(tmp_path / "none"))
    cache = tmp_path / "cache"
    with pytest.raises(OSError, match="NODE_EXTRA_CA_CERTS names the file"):
        npm("view", "anything", f"--registry={stranger}", f"--cache={cache}")
