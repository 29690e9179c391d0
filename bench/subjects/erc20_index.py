"""ERC-20 transfers of a node, indexed by a whole instance: fetched, decoded, committed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.subjects.serve import Work, serve
from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.settings import load_settings
from trace_platform.app.supervise.lite_stack import running

_POLL_S = 0.1
_DAG = """\
name: {name}
jobs:
  - name: request
    activation: source
    source: {{ kind: manual }}
    outputs: [ranges]
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{{ from: {{ job: request, output: ranges }} }}]
    execution_strategy: PerPartition
    outputs: [logs]
    config: {{ chain_id: 31337, rpc_pool: bench, tables: [logs] }}
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{{ from: {{ job: ingest, output: logs }} }}]
    execution_strategy: PerPartition
    outputs: [transfers, undecoded]
    config: {{ abis: [erc20.Transfer] }}
"""


@contextmanager
def prepared(url: str, directory: str) -> Iterator[Work]:
    home = Home.at(Path(directory))
    # A range is indexed once per DAG, so every run has a DAG of its own.
    names = (f"index_{n}" for n in count())

    def index(request: dict[str, Any]) -> dict[str, Any]:
        name = next(names)
        control_client.deploy(home, _DAG.format(name=name), f"{name}.yaml")
        before = _rows(home)
        started = time.time()
        control_client.trigger(home, name, "request", 1, request["blocks"])
        ended = _completed_at(home, name)
        return {"wall_s": ended - started, "rows": _rows(home) - before}

    with running(home, load_settings(home), env={"TRACE_RPC_BENCH": url}):
        yield index


def _completed_at(home: Home, name: str) -> float:
    """By the database's clock, which is this machine's: asking often would be work of its own."""
    while True:
        for job in ("ingest", "decode"):
            for task in control_client.tasks(home, name, job=job).tasks:
                if task.status == "Failed":
                    raise RuntimeError(f"{job} failed: {task.error_message}")
                if job == "decode" and task.completed_at is not None:
                    return task.completed_at.timestamp()
        time.sleep(_POLL_S)


def _rows(home: Home) -> int:
    files = home.objects.rglob("transfers_*.parquet")
    return sum(pq.read_metadata(file).num_rows for file in files)


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
