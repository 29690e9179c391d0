"""Decoding in a whole instance: from the node to committed transfers, behind the head of a chain,
and all of history once more when an ABI changed."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.decode import LOGS_PER_BLOCK, write_logs
from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median, spread
from bench.replay import replaying
from bench.subject import Subject
from tests.support.stack import Stack, trace, wait_for
from trace_platform.app.api_client import control_client
from trace_platform.app.instance import databases
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings

INDEXED, TXS = 5_000, 20
HEADS, BEFORE = 100, 400
AGAIN = 10_000_000
# A partition, as a range_splitter would cut such a chain.
_PART_LOGS = 500_000
_DAG = """\
name: tip
jobs:
  - name: follow
    activation: source
    source: { kind: always_on }
    runtime: ecs_platform
    operator: block_follower
    outputs: [blocks, transactions, logs]
    config: { chain_id: 31337, rpc_pool: bench, start_block: 0 }
  - name: transfers
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { job: follow, output: logs } }]
    execution_strategy: Bulk
    outputs: [transfers, undecoded]
    config: { abis: [erc20.Transfer] }
  - name: hourly
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: transfers, output: transfers } }]
    execution_strategy: Bulk
    outputs: [hourly]
    config:
      mode: window
      window: { every: 1h, most_blocks: 300 }
      sql: |
        select time_bucket(interval 1 hour, timestamp_seconds(timestamp)) as hour, address as token,
               count(*) as transfers
          from transfers group by all
publish:
  tip_blocks: { from: { job: follow, output: blocks }, storage: postgres }
  tip_transactions: { from: { job: follow, output: transactions }, storage: postgres }
  tip_logs: { from: { job: follow, output: logs }, storage: postgres }
"""
# Of what is current of a job's first output, the newest commit that holds a block. An hour in which
# it lies was there before: only a later commit has it.
_COMMITTED = """
SELECT extract(epoch FROM max(p.committed_at)) FROM partition_versions p
  JOIN datasets d ON d.current_version = p.dataset_version
 WHERE d.dag_name = 'tip' AND d.job_name = %s AND d.output_index = 0
   AND p.superseded_at IS NULL AND p.range_end >= %s AND p.committed_at > to_timestamp(%s)
"""


@measurement("erc20_index", f"ERC-20 transfers of {INDEXED:,} blocks: fetched, decoded, committed")
def erc20_index(bench: Bench) -> Iterator[Result]:
    blocks, workspace = bench.size or INDEXED, bench.workspace
    with replaying(blocks, TXS, workspace / "replay.log") as replay:
        home, log = workspace / "home", workspace / "erc20_index.log"
        args = (replay.url, str(home))
        name = "bench.subjects.erc20_index"
        with Subject("erc20_index", sys.executable, name, *args, log=log) as subject:
            taken = interleaved({"ours": lambda: subject.run(blocks=blocks)}, bench.runs)["ours"]
    rates = [each["rows"] / each["wall_s"] for each in taken]
    note = f"{spread(rates)}; {taken[0]['rows']:,} transfers of {blocks:,} blocks"
    goal = Goal(40_000, "fetch, decode, commit", at_most=False)
    yield Result("erc20_index.rows", median(rates), "rows/s", goal=goal, note=note)
    cpu = [each["rows"] / each["cpu_s"] for each in taken]
    yield Result("erc20_index.cpu", median(cpu), "rows/CPU s", note=spread(cpu))


@measurement("head_to_decoded", "from a new block to its decoded rows, and to its hour made anew")
def head_to_decoded(bench: Bench) -> Iterator[Result]:
    heads = bench.size or HEADS
    log = bench.workspace / "replay.log"
    with (
        replaying(BEFORE, TXS, log, prebuild=False) as replay,
        _tip(bench.workspace, replay.url) as stack,
        _state(stack) as state,
    ):
        _until(state, "hourly", BEFORE, after=_until(state, "transfers", BEFORE))
        taken = [_behind_head(state, replay.url) for _ in range(heads)]
    for name, job, limit in (("decoded", "transfers", 1_000.0), ("hourly", "hourly", 2_000.0)):
        waits = sorted(each[job] for each in taken)
        p90 = waits[int(len(waits) * 0.9)]
        yield Result(
            name=f"head_to_decoded.{name}",
            value=median(waits),
            unit="ms",
            goal=Goal(limit, "p50"),
            note=f"{len(waits)} blocks, p90 {p90:,.0f} ms, {spread(waits)}",
        )


@measurement("abi_redecode", f"{AGAIN:,} logs decoded again because an ABI was added")
def abi_redecode(bench: Bench) -> Iterator[Result]:
    parts = -(-(bench.size or AGAIN) // _PART_LOGS)
    rows, folder = parts * _PART_LOGS, bench.workspace / "logs"
    blocks = write_logs(folder, rows, parts)
    assert blocks * LOGS_PER_BLOCK == rows, "a part ends with a block"
    args = (str(bench.workspace / "home"), str(folder), str(parts), str(blocks))
    name, log = "bench.subjects.abi_redecode", bench.workspace / "abi_redecode.log"
    with Subject("abi_redecode", sys.executable, name, *args, log=log) as subject:
        taken = [subject.run() for _ in range(bench.runs)]
    minutes = [each["wall_s"] / 60 for each in taken]
    told = f"{rows:,} logs, {taken[0]['tasks']} tasks, progress said {taken[0]['steps']} times"
    yield Result("abi_redecode.wall", median(minutes), "min", note=f"{spread(minutes)}; {told}")
    rates = [rows / each["wall_s"] for each in taken]
    yield Result("abi_redecode.rows", median(rates), "rows/s", note=spread(rates))


@contextmanager
def _tip(workspace: Path, url: str) -> Iterator[Stack]:
    home = workspace / "home"
    home.mkdir()
    with trace(home, "up", env={"TRACE_RPC_BENCH": url}) as running:
        wait_for("the instance", lambda: "is ready in" in running.text())
        wait_for("a worker", lambda: control_client.queues(running.home).workers)
        control_client.deploy(running.home, _DAG, "tip.yaml")
        yield running


@contextmanager
def _state(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    settings = load_settings(stack.home)
    instance = open_instance(stack.home, settings)
    dsn = databases.dsn(stack.home, settings, instance, "trace_owner")
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def _behind_head(state: psycopg.Connection[Any], url: str) -> dict[str, float]:
    """Milliseconds from the answer that a block is mined; by the database's clock, which is this
    machine's."""
    head = int(_ask(url, "dev_mine"), 16)
    mined = time.time()
    decoded = _until(state, "transfers", head)
    hourly = _until(state, "hourly", head, after=decoded)
    return {"transfers": (decoded - mined) * 1000, "hourly": (hourly - mined) * 1000}


def _until(
    state: psycopg.Connection[Any], job: str, block: int, *, after: float = 0, limit_s: float = 300
) -> float:
    """When the block was committed by the job, after a moment."""
    began = time.monotonic()
    while time.monotonic() < began + limit_s:
        row = state.execute(_COMMITTED, (job, block, after)).fetchone()
        if row is not None and row[0] is not None:
            return float(row[0])
        time.sleep(0.01)
    raise BenchError(f"{job} did not get to block {block} within {limit_s:g} s")


def _ask(url: str, method: str, *params: Any) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        said = json.load(response)
    if "error" in said:
        raise BenchError(f"{method}: {said['error']}")
    return said["result"]
