"""The same task through a whole instance: from the commit of what it reads to its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from bench.subjects.serve import Work, serve
from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import Instance, open_instance
from trace_platform.app.instance.settings import Settings, load_settings
from trace_platform.app.supervise.lite_stack import lite_stages, serve_process
from trace_platform.app.supervise.process import ProcessSpec
from trace_platform.app.supervise.supervisor import Supervisor

_ROOT = Path(__file__).parent.parent.parent
_POLL_S = 0.1
_DAG = """\
name: {name}
jobs:
  - name: request
    activation: source
    source: {{ kind: manual }}
    outputs: [ranges]
  - name: link
    activation: reactive
    runtime: ecs_platform
    operator: bench_link
    inputs: [{{ from: {{ job: request, output: ranges }} }}]
    execution_strategy: PerPartition
    outputs: [rows]
    config: {{ folder: {folder} }}
  - name: transform
    activation: reactive
    runtime: ecs_platform
    operator: bench_transform
    inputs: [{{ from: {{ job: link, output: rows }} }}]
    execution_strategy: PerPartition
    outputs: [rows]
"""


@contextmanager
def instance_of(directory: str) -> Iterator[Home]:
    """A whole one, with the operators of measurements."""
    home = Home.at(Path(directory))
    settings = load_settings(home)
    instance = open_instance(home, settings)
    extra = [_process(home, settings, instance, name) for name in ("dispatcher", "worker")]
    stages = lite_stages(home, settings, instance, names=(), extra=extra)
    with Supervisor(home, stages, None):
        yield home


@contextmanager
def prepared(directory: str) -> Iterator[Work]:
    # A range is transformed once per DAG, so every run has a DAG of its own.
    names = (f"bench_{n}" for n in count())

    def work(request: dict[str, Any]) -> dict[str, Any]:
        walls = [_one(home, next(names), request) for _ in range(request["repeat"])]
        return {"wall_s": sum(walls) / len(walls)}

    with instance_of(directory) as home:
        yield work


def _process(home: Home, settings: Settings, instance: Instance, name: str) -> ProcessSpec:
    """With the operators of this measurement."""
    spec = serve_process(home, settings, instance, name, {})
    command = [sys.executable, "-m", "bench.subjects.spark_work", name, str(home.root)]
    return replace(spec, command=lambda: command, env={**spec.env, "PYTHONPATH": str(_ROOT)})


def _one(home: Home, name: str, request: dict[str, Any]) -> float:
    (folder,) = request["folders"]
    control_client.deploy(home, _DAG.format(name=name, folder=folder), f"{name}.yaml")
    control_client.trigger(home, name, "request", 0, request["end"])
    ended = _completed(home, name, "transform")
    return (ended - _completed(home, name, "link")).total_seconds()


def _completed(home: Home, name: str, job: str) -> datetime:
    """By the database's clock: asking often would be work of its own."""
    while True:
        for task in control_client.tasks(home, name, job=job).tasks:
            if task.status == "Failed":
                raise RuntimeError(f"{job} failed: {task.error_message}")
            if task.completed_at is not None:
                return task.completed_at
        time.sleep(_POLL_S)


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
