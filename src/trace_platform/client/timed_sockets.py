"""Sockets for HTTP whose time-outs are moments of the monotonic clock: connecting, the handshake,
sending and reading share one, however many steps each takes."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore

# Longer than any setting lets a query take, so that the service's own answer arrives first.
SILENT_S = 3_700.0
_WRITE_BYTES = 1 << 16


class TimedBackend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """To the first address of the host that answers: each has its share of the time."""
        addresses = _addresses(host, port)
        failed: Exception = httpcore.ConnectError(f"{host} has no address")
        for number, address in enumerate(addresses):
            share_s = _left_s(timeout, httpcore.ConnectTimeout) / (len(addresses) - number)
            try:
                found = self._sockets.connect_tcp(
                    address, port, share_s, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
            else:
                return _TimedStream(found)
        raise failed


class _TimedStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left_s(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITE_BYTES):
            piece = buffer[start : start + _WRITE_BYTES]
            self._stream.write(piece, _left_s(timeout, httpcore.WriteTimeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left_s = _left_s(timeout, httpcore.ConnectTimeout)
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, left_s))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _left_s(until: float | None, passed: type[httpcore.TimeoutException]) -> float:
    assert until is not None, "each request says until when"
    left_s = min(until - time.monotonic(), SILENT_S)
    if left_s <= 0:
        raise passed
    return left_s
