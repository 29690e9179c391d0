"""Logs that were decoded by one version of a stored ABI, and are again because of another one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.subjects.serve import Work, serve
from bench.subjects.spark_task_orchestrated import instance_of
from trace_platform.app.api_client import abi_client, backfill_client, control_client
from trace_platform.app.instance.home import Home
from trace_platform.wire.abi import AbiRedo, AddAbi

_POLL_S = 0.5
_DAG = """\
name: tokens
jobs:
  - name: request
    activation: source
    source: { kind: manual }
    outputs: [ranges]
  - name: logs
    activation: reactive
    runtime: ecs_platform
    operator: bench_link
    inputs: [{ from: { job: request, output: ranges } }]
    execution_strategy: PerPartition
    outputs: [logs]
    config: { folder: FOLDER }
  - name: transfers
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { job: logs, output: logs } }]
    execution_strategy: PerPartition
    outputs: [transfers, undecoded]
    config: { chain_id: 1, abis: [{ stored: token, events: [Transfer] }] }
"""
_FIRST = "event Transfer(address indexed from, address indexed to, uint256 value)"
_OTHERS = "event Transfer(address indexed sender{n}, address indexed to, uint256 value)"


@contextmanager
def prepared(directory: str, folder: str, parts: str, blocks: str) -> Iterator[Work]:
    """Ready when all of it was decoded once."""
    with instance_of(directory) as home:
        _add(home, _FIRST)
        control_client.deploy(home, _DAG.replace("FOLDER", folder), "tokens.yaml")
        each = int(blocks) // int(parts)
        for n in range(int(parts)):
            control_client.trigger(home, "tokens", "request", n * each, (n + 1) * each - 1)
        while _completed(home) < int(parts):
            time.sleep(_POLL_S)
        versions = iter(range(1_000_000))
        yield lambda _: _again(home, next(versions))


def _add(home: Home, text: str) -> list[AbiRedo]:
    given = AddAbi(name="token", chain_id=1, text=text, replace=True)
    return abi_client.add(home, given).redo


def _again(home: Home, version: int) -> dict[str, Any]:
    """Until the invalidation, which `trace abi add --wait` looks at, is processed. How often it
    said something new is how much one sees of it."""
    began = time.perf_counter()
    (redo,) = _add(home, _OTHERS.replace("{n}", str(version)))
    seen: set[tuple[int, int]] = set()
    while True:
        found = backfill_client.invalidations(home, redo.dataset, 1_000, open_only=False)
        one = next(i for i in found.invalidations if i.invalidation_id == redo.invalidation_id)
        seen.add((one.tasks_done, one.tasks))
        if one.state == "processed":
            return {"wall_s": time.perf_counter() - began, "steps": len(seen), "tasks": one.tasks}
        time.sleep(_POLL_S)


def _completed(home: Home) -> int:
    tasks = control_client.tasks(home, "tokens", job="transfers").tasks
    failed = [task for task in tasks if task.status == "Failed"]
    if failed:
        raise RuntimeError(f"decoding failed: {failed[0].error_message}")
    return sum(task.status == "Completed" for task in tasks)


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
