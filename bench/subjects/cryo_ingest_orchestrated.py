"""The same ingest through a whole instance: event, route, queue, claim, Spark, fenced commit."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

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
    outputs: [blocks, transactions, logs]
    config: {{ chain_id: 31337, rpc_pool: bench }}
"""


@contextmanager
def prepared(url: str, directory: str) -> Iterator[Work]:
    home = Home.at(Path(directory))
    # A range is ingested once per DAG, so every run has a DAG of its own.
    names = (f"bench_{n}" for n in count())

    def ingest(request: dict[str, Any]) -> dict[str, Any]:
        name = next(names)
        control_client.deploy(home, _DAG.format(name=name), f"{name}.yaml")
        started = time.time()
        control_client.trigger(home, name, "request", request["start"], request["end"])
        completed = _completed_at(home, name)
        for bucket in home.objects.iterdir():
            shutil.move(bucket, request["output"])
        return {"wall_s": completed - started}

    with running(home, load_settings(home), env={"TRACE_RPC_BENCH": url}):
        yield ingest


def _completed_at(home: Home, name: str) -> float:
    """By the database's clock, which is this machine's: asking often would be work of its own."""
    while True:
        for task in control_client.tasks(home, name).tasks:
            if task.status == "Failed":
                raise RuntimeError(f"the ingest failed: {task.error_message}")
            if task.completed_at is not None:
                return task.completed_at.timestamp()
        time.sleep(_POLL_S)


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
