"""A query child: reads requests from its input, answers on its output, ends with its parent.

Started by `query/service/children.py` as `python -I -m trace_platform.query.child.main SETUP`.
It imports nothing that a query does not need: no HTTP, no object store, no settings.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

import msgspec

from trace_platform.confinement import confine
from trace_platform.query.protocol.messages import (
    HEADER_BYTES,
    Done,
    Ready,
    Reply,
    Run,
    Setup,
    chunk_header,
    decode_request,
    frame,
)

# Deep enough for the deepest tree that DuckDB's parser accepts.
_RECURSION_LIMIT = 6_000


def main() -> None:
    setup = msgspec.json.decode(sys.argv[1], type=Setup)
    requests, replies = _take_pipes()
    confined_by = confine.confine(setup.readable, setup.scratch)
    confine.limit_files(setup.limits.spill_mb)
    sys.setrecursionlimit(_RECURSION_LIMIT)
    # Not before: its libraries start threads, and what the kernel took away holds for one.
    from trace_platform.query.child.statement_server import StatementServer

    def send_chunk(chunk: bytes) -> None:
        replies.write(chunk_header(len(chunk)))
        replies.write(chunk)

    server = StatementServer(setup, send_chunk)
    server.warm()
    confine.limit_memory(setup.limits.memory_mb * 3 // 2 + setup.limits.hot_mb)
    _send(replies, Ready(confined_by))
    while (header := requests.read(HEADER_BYTES)) and len(header) == HEADER_BYTES:
        request = decode_request(requests.read(int.from_bytes(header[1:], "big")))
        reply = server.answer(request)
        if isinstance(reply, Done) and confine.memory_left_mb() < setup.limits.memory_mb * 3 // 4:
            reply = msgspec.structs.replace(reply, spent=True)
        _send(replies, reply)
        if isinstance(request, Run):
            server.prepare()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes, moved away from 0 and 1 so that a stray read or print cannot break the framing."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return requests, replies


def _send(replies: BinaryIO, reply: Reply) -> None:
    replies.write(frame(reply))
    replies.flush()


if __name__ == "__main__":
    main()
