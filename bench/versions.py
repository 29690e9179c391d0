"""What people and loops ask about versions: how stale, what a deploy would do, what is owed.

Each is asked of a database with much that is current, and in turns of one with the same and a long
history: what has finished or given way should cost nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import yaml
from psycopg.rows import dict_row

from bench.engine_peers import EnginePostgres, engine_postgres
from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, spread
from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings
from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dispatcher.events.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.plan_dag import plan_dag
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import dags, generations, locks, staleness

PARTITIONS = 100_000
JOBS = 500
# Finished tasks, partitions that gave way and their events: as many of each.
HISTORY = int(os.environ.get("BENCH_HISTORY", "1000000"))
_AT_ONCE = 250_000
_A_SECOND = Goal(1.0, "best run")


@measurement("staleness", "100,000 current partitions that a job reads: how far it is behind")
def staleness_of_many(bench: Bench) -> Iterator[Result]:
    with _sides(bench, _two_jobs(), PARTITIONS) as sides:
        readers = {name: side.generation("reader") for name, side in sides.sides.items()}
        for side in sides.sides.values():
            side.execute(_LESS_GIVEN)
        judged = sides.timed(lambda name, side: side.judged(readers[name]))
        yield _result("staleness.judge", judged, "with 1 % not given and 0.1 % failed")
        yield _result("staleness.repair", sides.timed(lambda _, side: side.repaired()), goal=None)
        for side in sides.sides.values():
            side.run(reconcile_partitions(side.state))
        yield _result("staleness.reconcile", sides.timed(lambda _, side: side.reconciled()))


@measurement(
    "route_catch_up", "what a new generation is owed of 100,000 partitions, under the lock"
)
def route_catch_up(bench: Bench) -> Iterator[Result]:
    with _sides(bench, _two_jobs(), PARTITIONS) as sides:
        built = {}
        for name, side in sides.sides.items():
            side.deploy(_two_jobs(revision=2))
            built[name] = side.generation("reader", building=True)
        taken = sides.timed(lambda name, side: side.owed(built[name], PARTITIONS))
        yield _result("route_catch_up.locked", taken)


@measurement(
    "plan_500", "the plan of a DAG with 500 jobs and 100,000 partitions, edited in the middle"
)
def plan_500(bench: Bench) -> Iterator[Result]:
    edited = _many_jobs(edit=2)
    # Each deploy is one that was never seen.
    edits = itertools.count(3)
    with _sides(bench, _many_jobs(), PARTITIONS // JOBS) as sides:
        yield _result("plan_500.plan", sides.timed(lambda _, side: side.planned(edited)))
        deployed = sides.timed(lambda _, side: side.deployed(_many_jobs(edit=next(edits))))
        yield _result("plan_500.deploy", deployed, goal=None)
    checked = [_checked(edited) for _ in range(1 + bench.runs)][1:]
    yield Result("plan_500.check", min(checked), "s", note=f"of the file alone; {spread(checked)}")


def _result(
    name: str,
    taken: dict[str, list[float]],
    note: str = "",
    goal: Goal | None = _A_SECOND,
) -> Result:
    old, fresh = taken["old"], taken["fresh"]
    facts = f"{HISTORY:,} of history: {spread(old)}, without: {spread(fresh)}"
    facts += f"; load {os.getloadavg()[0]:.1f}" + (f"; {note}" if note else "")
    return Result(name, min(old), "s", "no history", min(fresh), goal, facts)


def _checked(text: str) -> float:
    began = time.perf_counter()
    check_dag(text)
    return time.perf_counter() - began


def _job(name: str, after: str, revision: int = 1) -> dict[str, Any]:
    return {
        "name": name,
        "activation": "reactive",
        "runtime": "ecs_platform",
        "operator": "no_op",
        "inputs": [{"from": {"job": after}}],
        # Changes what the job means and nothing else.
        "update_strategy": "append" if revision > 1 else "replace",
        **({"unique_key": [f"n{revision}"]} if revision > 1 else {}),
    }


def _dag(jobs: list[dict[str, Any]]) -> str:
    source = {"name": "source", "activation": "source", "source": {"kind": "manual"}}
    return yaml.safe_dump({"name": "bench", "jobs": [source, *jobs]}, sort_keys=False)


def _two_jobs(revision: int = 1) -> str:
    return _dag([_job("maker", "source"), _job("reader", "maker", revision)])


def _many_jobs(edit: int = 1) -> str:
    """A chain that splits in two at every tenth job: neither all deep nor all wide."""
    jobs = [_job("job_0", "source")]
    for n in range(1, JOBS):
        after = n - 10 if n % 10 == 0 and n > 10 else n - 1
        jobs.append(_job(f"job_{n}", f"job_{after}", edit if n == JOBS // 2 else 1))
    return _dag(jobs)


@dataclass
class _Side:
    """A state database, asked in this process: no HTTP, no worker."""

    dsn: str
    state: Database
    org_id: UUID
    run: Callable[[Awaitable[Any]], Any]

    def execute(self, statement: LiteralString, **values: Any) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = off")
            # The rows are made to fit: their keys need not be looked up one by one.
            connection.execute("SET session_replication_role = replica")
            connection.execute(statement, values)

    def deploy(self, text: str) -> None:
        self.run(deploy_dag(self.state, self.org_id, text, "dag.yaml"))

    def generation(self, job: str, *, building: bool = False) -> UUID:
        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            row = connection.execute(
                "SELECT id FROM generations WHERE job_name = %s AND (built_at IS NULL) = %s",
                (job, building),
            ).fetchone()
        if row is None:
            raise BenchError(f"there is no such generation of {job}")
        return UUID(str(row["id"]))

    async def judged(self, generation_id: UUID) -> float:
        began = time.perf_counter()
        async with self.state.transaction() as tx:
            found = (await staleness.of_generations(tx, [generation_id]))[generation_id]
        taken = time.perf_counter() - began
        if (found.current, found.not_given, found.failed) != (PARTITIONS, 1_000, 100):
            raise BenchError(f"not what was put there: {found}")
        return taken

    async def repaired(self) -> float:
        """One in a hundred was never given, and nobody owes it."""
        began = time.perf_counter()
        if await reconcile_partitions(self.state) != 1_000:
            raise BenchError("not all that was lost was found")
        taken = time.perf_counter() - began
        async with self.state.transaction() as tx:
            await tx.execute("DELETE FROM outbox WHERE kind = 'route'")
        return taken

    async def reconciled(self) -> float:
        """Nothing is lost."""
        began = time.perf_counter()
        if await reconcile_partitions(self.state):
            raise BenchError("something was lost")
        return time.perf_counter() - began

    async def owed(self, generation_id: UUID, events: int) -> float:
        async with self.state.transaction() as tx:
            began = time.perf_counter()
            await locks.routing(tx)
            found = await generations.owe_missing(tx, [generation_id])
            taken = time.perf_counter() - began
            # So that the next run finds the same.
            await tx.execute("DELETE FROM outbox WHERE kind = 'route'")
        if found != {generation_id: events}:
            raise BenchError(f"not what was put there: {found}")
        return taken

    async def planned(self, text: str) -> float:
        began = time.perf_counter()
        plan = await plan_dag(self.state, self.org_id, text, "dag.yaml")
        taken = time.perf_counter() - began
        held = sum(job.holds.partitions for job in plan.jobs)
        if held != (JOBS * (PARTITIONS // JOBS)) or not 0 < len(plan.builds) < JOBS:
            raise BenchError(f"not what was put there: {held} partitions, {len(plan.builds)} built")
        return taken

    async def deployed(self, text: str) -> float:
        """Until everything that is built is owed to the router; then it is given up."""
        began = time.perf_counter()
        done = await deploy_dag(self.state, self.org_id, text, "dag.yaml")
        taken = time.perf_counter() - began
        if done.status != "Building":
            raise BenchError(f"the deploy is {done.status}")
        await roll_back(self.state, self.org_id, "bench")
        return taken


@dataclass(frozen=True)
class _Sides:
    sides: dict[str, _Side]
    runs: int

    def timed(self, sample: Callable[[str, _Side], Awaitable[float]]) -> dict[str, list[float]]:
        def call(name: str, side: _Side) -> Callable[[], float]:
            return lambda: float(side.run(sample(name, side)))

        return interleaved({n: call(n, side) for n, side in self.sides.items()}, self.runs)


@contextmanager
def _sides(bench: Bench, dag: str, partitions: int) -> Iterator[_Sides]:
    """Two databases with the same that is current, one of them with a history besides."""
    with engine_postgres(bench.workspace) as postgres, asyncio.Runner() as runner:
        sides = {}
        for name, history in (("fresh", 0), ("old", HISTORY)):
            side = _opened(postgres, bench.workspace / name, name, runner)
            side.deploy(dag)
            _fill(side, partitions, history)
            sides[name] = side
        try:
            yield _Sides(sides, bench.runs)
        finally:
            for side in sides.values():
                side.run(side.state.close())


def _opened(postgres: EnginePostgres, folder: Path, name: str, runner: asyncio.Runner) -> _Side:
    folder.mkdir()
    dsn = postgres.database(f"{name}_state")
    home = Home(folder / "home")
    home.root.mkdir()
    data_dsn = postgres.database(f"{name}_data")
    home.config_file.write_text(f'[postgres]\nstate_dsn = "{dsn}"\ndata_dsn = "{data_dsn}"\n')
    settings = load_settings(home, {})
    databases.prepare(home, settings, open_instance(home, settings))
    state = Database(dsn)

    async def org() -> UUID:
        await state.open()
        async with state.transaction() as tx:
            return await dags.default_org(tx)

    return _Side(dsn, state, runner.run(org()), runner.run)  # type: ignore[arg-type]


def _fill(side: _Side, partitions: int, history: int) -> None:
    """So many partitions of each job but the source, each announced and read. Of history as much in
    all: partitions that gave way, with their events, and the tasks that had read them."""
    with psycopg.connect(side.dsn) as connection:
        (jobs,) = connection.execute(
            "SELECT count(*) FROM generations WHERE job_name NOT IN ('source', 'reader')"
        ).fetchone() or (0,)
    each = history // int(jobs)
    step = max(1, _AT_ONCE // int(jobs))
    for start in range(0, each, step):
        side.execute(_MADE, first=start, last=min(start + step, each) - 1, of=partitions, old=True)
    side.execute(_MADE, first=0, last=partitions - 1, of=partitions, old=False)
    side.execute("DELETE FROM outbox")
    with psycopg.connect(side.dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


# Partitions of every job that has an input, made by a task each, with an event that each reader of
# the job was given in a task of its own.
_MADE: LiteralString = """
WITH makers AS MATERIALIZED (
    SELECT g.id AS generation_id, v.job_id, d.version, d.dataset_uuid, g.org_id
      FROM generations g
      JOIN dag_version_jobs v ON v.generation_id = g.id
      JOIN dataset_versions d ON d.generation_id = g.id
     WHERE g.job_name NOT IN ('source', 'reader')
), made AS (
    INSERT INTO tasks (id, org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs,
                       outputs, status, attempt, worker_id, started_at, completed_at)
    SELECT uuid7(), org_id, job_id, generation_id, 'made:' || %(old)s || ':' || n, 'ecs_platform',
           1, jsonb_build_array(jsonb_build_object('start', n %% %(of)s * 10)), '[]', 'Completed',
           1, 'w', now(), now()
      FROM makers, generate_series(%(first)s::bigint, %(last)s) n
    RETURNING id, generation_id, (inputs->0->>'start')::bigint AS start
), attempts AS (
    INSERT INTO task_attempts (task_id, attempt, lease_token, worker_id, ended_at, outcome)
    SELECT id, 1, id, 'w', clock_timestamp() + interval '1 s', 'Completed' FROM made
), parts AS (
    INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key, range_start,
        range_end, location, files, row_count, byte_count, schema_hash, task_id, attempt,
        superseded_at)
    SELECT m.dataset_uuid, m.version, made.start || '-' || made.start + 9, made.start,
           made.start + 9, 's3://b/', '[]', 10, 100, 'x', made.id, 1,
           CASE WHEN %(old)s THEN now() END
      FROM made JOIN makers m ON m.generation_id = made.generation_id
    RETURNING id, dataset_uuid, dataset_version, partition_key, range_start, range_end, task_id
), told AS (
    INSERT INTO events (org_id, dataset_uuid, dataset_version, identity, partition_key, range_start,
        range_end, producer_task_id, producer_attempt, materialisation, routed_at, position)
    SELECT (SELECT org_id FROM makers LIMIT 1), dataset_uuid, dataset_version,
           'partition:' || partition_key || '@' || id, partition_key, range_start, range_end,
           task_id, 1, id, now(),
           -- In the order of the partitions, as commits announce them.
           row_number() OVER (PARTITION BY dataset_version ORDER BY range_start)
      FROM parts
    RETURNING id, dataset_version
), read AS (
    SELECT t.id AS event_id, s.generation_id, s.job_id, uuid7() AS task_id
      FROM told t JOIN subscriptions s ON s.dataset_version = t.dataset_version
), given AS (
    INSERT INTO tasks (id, org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs,
                       outputs, status, attempt, worker_id, started_at, completed_at)
    SELECT task_id, (SELECT org_id FROM makers LIMIT 1), job_id, generation_id, 'read:' || event_id,
           'ecs_platform', 1, '[{"cursor": 1}]', '[]', 'Completed', 1, 'w', now(), now()
      FROM read
)
INSERT INTO task_inputs (event_id, generation_id, task_id)
SELECT event_id, generation_id, task_id FROM read
"""
# Of what is current: each hundredth was not given to the reader, each thousandth failed there.
_LESS_GIVEN: LiteralString = """
WITH current AS (
    SELECT e.id, row_number() OVER (ORDER BY e.id) AS n
      FROM partition_versions p JOIN events e ON e.materialisation = p.id
      JOIN datasets d ON d.uuid = p.dataset_uuid AND d.job_name = 'maker'
     WHERE p.superseded_at IS NULL
), lost AS (
    DELETE FROM task_inputs WHERE event_id IN (SELECT id FROM current WHERE n %% 100 = 0)
)
UPDATE tasks SET status = 'Failed', error_code = 'bench'
 WHERE id IN (SELECT i.task_id FROM current c JOIN task_inputs i ON i.event_id = c.id
               WHERE n %% 1000 = 1)
"""
