"""A query child: reads requests from its input, answers on its output, ends with its parent.

Started by `trace_platform.query.children` as `python -I -m trace_platform.query.child LIMITS`.
It imports nothing that a query does not need: no HTTP, no object store, no settings.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

import msgspec

from trace_platform.domain.errors import InvalidQuery, TraceError
from trace_platform.query import confine, gate
from trace_platform.query.engine import Engine, open_database
from trace_platform.query.functions import allowed_functions
from trace_platform.query.messages import (
    HEADER_BYTES,
    Check,
    Checked,
    Limits,
    Ready,
    Refused,
    Reply,
    Request,
    Run,
    decode_request,
    frame,
)

# Deep enough for the deepest tree that DuckDB's parser accepts.
_RECURSION_LIMIT = 6_000


class Desk:
    """Checks and runs the statements of one parent, one after the other."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._engine = Engine(limits)
        self._parser = open_database(limits)
        self._sql: str | None = None

    def warm(self) -> None:
        """Pay for imports, the function list and the first database before the first query."""
        allowed_functions()
        gate.check(self._parser, "SELECT 1", ())
        self._engine.run("SELECT now(), 1.5::DECIMAL(3, 1)", {}, 1)
        self._engine.prepare()

    def answer(self, request: Request) -> Reply:
        confine.limit_cpu(self._limits.timeout_s * self._limits.threads)
        try:
            return self._check(request) if isinstance(request, Check) else self._run(request)
        except TraceError as error:
            return Refused(error.code, error.message, error.hint, error.facts)
        except (MemoryError, RecursionError):
            too_big = InvalidQuery("the query is too large to run")
            return Refused(too_big.code, too_big.message, retire=True)

    def prepare(self) -> None:
        self._engine.prepare()

    def _check(self, request: Check) -> Reply:
        self._sql = None
        datasets = gate.check(self._parser, request.sql, request.published)
        self._sql = request.sql
        return Checked(datasets)

    def _run(self, request: Run) -> Reply:
        if self._sql is None:
            raise InvalidQuery("no statement was checked")
        sql, self._sql = self._sql, None
        return self._engine.run(sql, request.tables, request.limit)


def main() -> None:
    limits = msgspec.json.decode(sys.argv[1], type=Limits)
    requests, replies = _take_pipes()
    confine.confine()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    desk = Desk(limits)
    desk.warm()
    confine.limit_memory(limits.memory_mb + limits.memory_mb // 2)
    _send(replies, Ready())
    while (header := requests.read(HEADER_BYTES)) and len(header) == HEADER_BYTES:
        request = decode_request(requests.read(int.from_bytes(header, "big")))
        _send(replies, desk.answer(request))
        if isinstance(request, Run):
            desk.prepare()


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
