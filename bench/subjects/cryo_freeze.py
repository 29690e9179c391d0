"""cryo as its users call it: three tables, default columns and concurrency. In cryo's venv."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.subjects.serve import Work, serve


@contextmanager
def prepared(url: str, _: str) -> Iterator[Work]:
    import cryo  # type: ignore[import-not-found]

    def freeze(request: dict[str, Any]) -> dict[str, Any]:
        # cryo's end is exclusive.
        span = f"{request['start']}:{request['end'] + 1}"
        started = time.perf_counter()
        cryo.freeze(
            ["blocks", "transactions", "logs"],
            blocks=[span],
            rpc=url,
            output_dir=request["output"],
            verbose=False,
            **request.get("options", {}),
        )
        return {"wall_s": time.perf_counter() - started}

    yield freeze


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
