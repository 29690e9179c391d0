"""A whole instance whose published datasets are files that are there already."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from bench.harness import BenchError
from tests.support.query_service import user_client
from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import Instance, open_instance
from trace_platform.app.instance.query_users import QueryUsers
from trace_platform.app.instance.settings import Settings, load_settings
from trace_platform.app.supervise.lite_stack import lite_stages, serve_process
from trace_platform.app.supervise.log import configure_logging
from trace_platform.app.supervise.process import ProcessSpec
from trace_platform.app.supervise.supervisor import Supervisor

_ROOT = Path(__file__).parent.parent
_LINKED_S = 60.0
_DAG = """\
name: bench
jobs:
  - name: request
    activation: source
    source: { kind: manual }
    outputs: [ranges]
"""
_JOB = """\
  - name: link_{name}
    activation: reactive
    runtime: ecs_platform
    operator: bench_link
    inputs: [{{ from: {{ job: request, output: ranges }} }}]
    execution_strategy: PerPartition
    outputs: [rows]
    config: {{ folder: {folder} }}
"""
_PUBLISHED = "  {name}: {{ from: {{ job: link_{name}, output: rows }} }}\n"


@contextmanager
def instance_with(
    directory: Path, folders: Mapping[str, Path], *, door: bool = False
) -> Iterator[Home]:
    """By name of the dataset: the folder of its Parquet files. `door`: with the gateway."""
    home = Home(directory)
    home.root.mkdir()
    home.config_file.write_text("[worker]\nprewarm = false\n")
    settings = load_settings(home)
    instance = open_instance(home, settings)
    extra = [_process(home, settings, instance, name) for name in ("dispatcher", "worker")]
    names = ("query", "rpc", "gateway") if door else ("query",)
    stages = lite_stages(home, settings, instance, names=names, extra=extra)
    with (home.logs / "supervisor.jsonl").open("a") as log:
        configure_logging("supervisor", log)
        with Supervisor(home, stages, None):
            _publish(home, folders)
            yield home


def _publish(home: Home, folders: Mapping[str, Path]) -> None:
    jobs = (_JOB.format(name=name, folder=folder) for name, folder in folders.items())
    published = (_PUBLISHED.format(name=name) for name in folders)
    dag = "".join([_DAG, *jobs, "publish:\n", *published])
    control_client.deploy(home, dag, "bench.yaml")
    control_client.trigger(home, "bench", "request", 0, 0)
    _wait_until_linked(home, len(folders))


def client_of(home: Home, token: str | None = None) -> httpx.Client:
    """Of the query service; without a token as the instance's owner."""
    instance = open_instance(home, load_settings(home))
    return user_client(home, instance.url("query"), token=token)


def user_tokens(home: Home, users: int) -> list[str]:
    """Of as many new users, each with a name."""
    known = QueryUsers(home)
    return [known.add(f"user-{n}") for n in range(users)]


def _process(home: Home, settings: Settings, instance: Instance, name: str) -> ProcessSpec:
    """With the operator that links."""
    spec = serve_process(home, settings, instance, name, {})
    command = [sys.executable, "-m", "bench.subjects.spark_work", name, str(home.root)]
    return replace(spec, command=lambda: command, env={**spec.env, "PYTHONPATH": str(_ROOT)})


def _wait_until_linked(home: Home, datasets: int) -> None:
    deadline = time.monotonic() + _LINKED_S
    while True:
        tasks = control_client.tasks(home, "bench").tasks
        for task in tasks:
            if task.status == "Failed":
                raise BenchError(f"{task.job_name} failed: {task.error_message}")
        if sum(task.status == "Completed" for task in tasks) == datasets:
            return
        if time.monotonic() > deadline:
            raise BenchError(f"the datasets were not committed within {_LINKED_S:g} s")
        time.sleep(0.1)
