"""Somebody on the same machine who speaks Spark's transport protocol and knows no secret.

A frame is its length, a type and a body; all numbers are big-endian.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import psutil

CHUNK_REQUEST, CHUNK, RPC, RPC_ANSWER, STREAM_REQUEST, STREAM = 0, 1, 3, 4, 6, 7
GIVEN = (CHUNK, RPC_ANSWER, STREAM)
_OPEN_BLOCKS = 0
# Ports of other kinds may wait for more.
_SILENCE_S = 2.0


class Frame(NamedTuple):
    kind: int
    body: bytes


def listening_ports(pid: int) -> list[int]:
    connections = psutil.Process(pid).net_connections("tcp")
    return sorted({each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN})


def ask(port: int, *asked: Frame) -> list[Frame]:
    """What is said in turn, until the other side is silent or hangs up."""
    with _connected(port) as connection:
        return list(_conversation(connection, asked))


def steal_blocks(port: int, names: Iterable[str]) -> dict[str, bytes]:
    """Blocks that the block manager behind the port hands out."""
    found: dict[str, bytes] = {}
    for name in names:
        with _connected(port) as connection:
            for handle in _conversation(connection, [open_blocks(name)]):
                if handle.kind == RPC_ANSWER:
                    # The id of a stream, which ends with the connection, and its number of chunks.
                    first = Frame(CHUNK_REQUEST, handle.body[-12:-4] + struct.pack(">i", 0))
                    got = _conversation(connection, [first])
                    found.update((name, each.body[12:]) for each in got if each.kind == CHUNK)
    return found


def open_blocks(*names: str) -> Frame:
    body = bytes([_OPEN_BLOCKS]) + _text("stranger") + _text("driver")
    return rpc(body + struct.pack(">i", len(names)) + b"".join(map(_text, names)))


def rpc(body: bytes) -> Frame:
    return Frame(RPC, struct.pack(">qi", 7, len(body)) + body)


def stream(name: str) -> Frame:
    return Frame(STREAM_REQUEST, _text(name))


def to_endpoint(name: str, message: bytes) -> Frame:
    """For an endpoint of an RPC port: no sender, then who is meant, then a Java object."""
    address = b"\1" + _java_text("127.0.0.1") + struct.pack(">i", 1)
    return rpc(b"\0" + address + _java_text(name) + message)


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), _SILENCE_S)


def _conversation(connection: socket.socket, asked: Iterable[Frame]) -> Iterator[Frame]:
    try:
        for frame in asked:
            connection.sendall(_encoded(frame))
            yield _answer(connection)
    except (OSError, EOFError):  # silent, or hung up
        return


def _answer(connection: socket.socket) -> Frame:
    (length,) = struct.unpack(">q", _exactly(connection, 8))
    body = _exactly(connection, length - 8)
    if body[0] == STREAM:
        (size,) = struct.unpack_from(">q", body, len(body) - 8)
        body += _exactly(connection, size)
    return Frame(body[0], body[1:])


def _exactly(connection: socket.socket, n: int) -> bytes:
    if not 0 <= n < 1 << 24:
        raise EOFError("not a frame of Spark's")
    got = b""
    while len(got) < n:
        part = connection.recv(n - len(got))
        if not part:
            raise EOFError
        got += part
    return got


def _encoded(frame: Frame) -> bytes:
    return struct.pack(">qB", 9 + len(frame.body), frame.kind) + frame.body


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def _java_text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
