"""ethereum-etl as its users call it: blocks and transactions, then receipts and logs of those, as
CSV. Default batch size and workers. In ethereum-etl's venv."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.subjects.serve import Work, serve


@contextmanager
def prepared(url: str, _: str) -> Iterator[Work]:
    # Its parser is of a time when Python still had this.
    inspect.getargspec = inspect.getfullargspec  # type: ignore[attr-defined]
    from ethereumetl.cli import cli  # type: ignore[import-not-found]

    def call(command: str, **options: str) -> None:
        words = [word for name, value in options.items() for word in (_option(name), value)]
        cli([command, *words], standalone_mode=False)

    def export(request: dict[str, Any]) -> dict[str, Any]:
        folder = request["output"]
        started = time.perf_counter()
        call(
            "export_blocks_and_transactions",
            start_block=str(request["start"]),
            end_block=str(request["end"]),
            provider_uri=url,
            blocks_output=f"{folder}/blocks.csv",
            transactions_output=f"{folder}/transactions.csv",
        )
        call(
            "extract_csv_column",
            input=f"{folder}/transactions.csv",
            column="hash",
            output=f"{folder}/hashes.txt",
        )
        call(
            "export_receipts_and_logs",
            transaction_hashes=f"{folder}/hashes.txt",
            provider_uri=url,
            receipts_output=f"{folder}/receipts.csv",
            logs_output=f"{folder}/logs.csv",
        )
        return {"wall_s": time.perf_counter() - started}

    yield export


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
