"""What must not grow: the cost of a claim with history, the cost of heartbeats with workers."""

from __future__ import annotations

import asyncio
import itertools
import random
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg

from bench.engine_peers import EnginePostgres, engine_postgres
from bench.engine_trace import Engine
from bench.harness import Bench, Goal, Result, measurement
from bench.process_tree import cpu_seconds
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import tasks

HISTORY = 10_000_000
CLAIMS = 1_000
WORKERS = 500
BEAT_EVERY_S = 5.0
BEAT_FOR_S = 20.0


@measurement("engine_history", "a claim with 10 million finished tasks next to an empty table")
def engine_history(bench: Bench) -> Iterator[Result]:
    with engine_postgres(bench.workspace) as postgres:
        fresh = _prepared(postgres, bench.workspace, "fresh", history=0)
        old = _prepared(postgres, bench.workspace, "old", history=HISTORY)
        taken: dict[str, list[float]] = {fresh: [], old: []}
        asyncio.run(_claim_in_turns(taken))
    ours, empty = _quantile(taken[old], 0.99) * 1e3, _quantile(taken[fresh], 0.99) * 1e3
    note = f"{HISTORY:,} finished tasks; p50 {_quantile(taken[old], 0.5) * 1e3:.2f} ms"
    note += f" next to {_quantile(taken[fresh], 0.5) * 1e3:.2f} ms"
    goal = Goal(1.5, "claim p99", of_peer="empty table")
    yield Result("engine_history.claim_p99", ours, "ms", "empty table", empty, goal, note)


def _prepared(postgres: EnginePostgres, workspace: Path, name: str, history: int) -> str:
    """A state database with so many finished tasks, and ready ones to claim."""
    with Engine(postgres, workspace / name, name, worker=False) as engine:
        dsn = engine.state_dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        for start in range(0, history, 500_000):
            connection.execute(_FINISHED, {"start": start, "end": min(start + 500_000, history)})
        connection.execute(_READY, {"n": 2 * CLAIMS})
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    return dsn


_FINISHED = """
WITH made AS (
    INSERT INTO tasks (id, org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs,
                       outputs, status, attempt, worker_id, started_at, completed_at)
    SELECT uuid7(), j.org_id, j.id, v.generation_id, 'old:' || n, j.runtime, 1, '[{"cursor": 1}]',
           '[]', 'Completed', 1, 'w', now(), now()
      FROM jobs j JOIN dag_version_jobs v ON v.job_id = j.id,
           generate_series(%(start)s + 1, %(end)s) n WHERE j.name = 'noop'
    RETURNING id)
INSERT INTO task_attempts (task_id, attempt, lease_token, worker_id, ended_at, outcome)
SELECT id, 1, id, 'w', now(), 'Completed' FROM made
"""
_READY = """
INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs)
SELECT j.org_id, j.id, v.generation_id, 'ready:' || n, j.runtime, 1, '[{"cursor": 1}]'
  FROM jobs j JOIN dag_version_jobs v ON v.job_id = j.id, generate_series(1, %(n)s) n
 WHERE j.name = 'noop'
"""


async def _claim_in_turns(taken: dict[str, list[float]]) -> None:
    """One task a claim, in turns, so that a noisy second hits both."""
    sides = {dsn: Database(dsn) for dsn in taken}
    for side in sides.values():
        await side.open()
    for n in range(CLAIMS + 100):
        for dsn, side in sides.items():
            began = time.perf_counter()
            async with side.transaction() as tx:
                (claimed,) = await tasks.claim(tx, "ecs_platform", ["bench"])
            if n >= 100:
                taken[dsn].append(time.perf_counter() - began)
            async with side.transaction() as tx:
                # Ended at once: what runs is counted by every claim.
                await tx.execute(_END, (claimed.id,))
    for side in sides.values():
        await side.close()


_END = """
UPDATE tasks SET status = 'Completed', lease_expires_at = NULL, completed_at = now() WHERE id = %s
"""


@measurement("engine_heartbeats", "500 workers that each keep two leases, every five seconds")
def engine_heartbeats(bench: Bench) -> Iterator[Result]:
    with (
        engine_postgres(bench.workspace) as postgres,
        Engine(postgres, bench.workspace / "trace", "trace", worker=False) as engine,
    ):
        engine.emit("noops.source", 2 * WORKERS)
        engine.await_ready(2 * WORKERS)
        beats = asyncio.run(_heartbeats(engine))
    answered = [seconds for seconds, _ in beats["answers"]]
    note = f"{len(answered):,} calls, {beats['stale']} leases lost"
    p99 = _quantile(answered, 0.99) * 1e3
    yield Result("engine_heartbeats.p99", p99, "ms", goal=Goal(100, "answer p99"), note=note)
    cores = beats["dispatcher_cpu_s"] / BEAT_FOR_S
    yield Result("engine_heartbeats.dispatcher", cores, "cores", note="of the dispatcher alone")


async def _heartbeats(engine: Engine) -> dict[str, Any]:
    tls = ssl.create_default_context(cafile=str(engine.home.tls / "ca.pem"))
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
    headers = {"X-Trace-Worker-Token": engine.home.secret("worker_token")}
    async with httpx.AsyncClient(
        base_url=engine.url, verify=tls, limits=limits, headers=headers, timeout=60, trust_env=False
    ) as client:
        leases = [await _claimed(client, n) for n in range(WORKERS)]
        before = cpu_seconds(engine.pids["dispatcher"])
        rng = random.Random(7)
        answers = await asyncio.gather(
            *(
                _beat(client, n, fences, rng.uniform(0, BEAT_EVERY_S))
                for n, fences in enumerate(leases)
            )
        )
    flat = list(itertools.chain(*answers))
    return {
        "answers": flat,
        "stale": sum(stale for _, stale in flat),
        "dispatcher_cpu_s": cpu_seconds(engine.pids["dispatcher"]) - before,
    }


async def _claimed(client: httpx.AsyncClient, n: int) -> list[dict[str, Any]]:
    body = {"runtime": "ecs_platform", "worker_id": f"w{n}", "max_tasks": 2}
    response = (await client.post("/internal/task-claims", json=body)).raise_for_status()
    return [
        {
            "task_id": each["task"]["task_id"],
            "attempt": each["attempt"],
            "lease_token": each["lease_token"],
        }
        for each in response.json()["claimed"]
    ]


async def _beat(
    client: httpx.AsyncClient, n: int, fences: list[dict[str, Any]], first_s: float
) -> list[tuple[float, int]]:
    """One worker's beats: how long each took, and how many leases it was refused."""
    body = {"worker_id": f"w{n}", "runtime": "ecs_platform", "slots": 2, "beats": fences}
    answers = []
    due = time.monotonic() + first_s
    ends = time.monotonic() + BEAT_FOR_S
    while due < ends:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        began = time.perf_counter()
        response = await client.post("/internal/task-heartbeats", json=body)
        response.raise_for_status()
        stale = sum(result["lease"] is None for result in response.json()["results"])
        answers.append((time.perf_counter() - began, stale))
        due += BEAT_EVERY_S
    return answers


def _quantile(values: list[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]
