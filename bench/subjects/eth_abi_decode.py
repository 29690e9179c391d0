"""The same transfers with eth_abi: read before, so that the time is of decoding alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import eth_abi
import pyarrow.parquet as pq

from bench.subjects.serve import Work, serve

_COLUMNS = ["topic1", "topic2", "data"]


@contextmanager
def prepared() -> Iterator[Work]:
    def work(request: dict[str, Any]) -> dict[str, Any]:
        first = min(Path(request["folder"]).glob("*.parquet"))
        table = pq.read_table(first, columns=_COLUMNS).slice(0, request["rows"])
        logs = list(zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True))
        started = time.perf_counter()
        rows = [_decoded(*log) for log in logs]
        return {"wall_s": time.perf_counter() - started, "rows": len(rows)}

    yield work


def _decoded(sender: bytes, receiver: bytes, data: bytes) -> tuple[Any, ...]:
    return (
        *eth_abi.decode(["address"], sender),
        *eth_abi.decode(["address"], receiver),
        *eth_abi.decode(["uint256"], data),
    )


if __name__ == "__main__":
    serve(prepared())
