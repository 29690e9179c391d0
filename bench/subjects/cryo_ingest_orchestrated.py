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
from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.app.lite_stack import running
from trace_platform.app.settings import load_settings

_POLL_S = 0.02
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
        started = time.perf_counter()
        control_client.trigger(home, name, "request", request["start"], request["end"])
        while not _committed(home, name):
            time.sleep(_POLL_S)
        wall_s = time.perf_counter() - started
        for bucket in home.objects.iterdir():
            shutil.move(bucket, request["output"])
        return {"wall_s": wall_s}

    with running(home, load_settings(home), env={"TRACE_RPC_BENCH": url}):
        yield ingest


def _committed(home: Home, name: str) -> bool:
    status = control_client.dag_status(home, name)
    counts = next(job.counts for job in status.jobs if job.name == "ingest")
    if counts.get("Failed"):
        failed = control_client.tasks(home, name, "Failed").tasks[0]
        raise RuntimeError(f"the ingest failed: {failed.error_message}")
    return counts.get("Completed", 0) > 0


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
