"""A history is played by the control plane's own verbs, and looked at after every action."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from tests.support.judge import content_operator
from tests.support.judge.attempt import Attempt, complete, end_badly, halves, report
from tests.support.judge.check import Oracle, Seen, Watch
from tests.support.judge.finding import Found
from tests.support.judge.history import Action
from tests.support.judge.shapes import SOURCE, DagShape, Definition, Shape, dag_yaml
from tests.support.judge.stage import Stage
from tests.support.judge.world import Content, World
from trace_platform.dispatcher.advance_backfills import advance_backfills
from trace_platform.dispatcher.advance_deploys import advance_deploys
from trace_platform.dispatcher.cancel_task import cancel_task
from trace_platform.dispatcher.claim_task import claim_tasks
from trace_platform.dispatcher.collect_garbage import Collecting, collect_garbage
from trace_platform.dispatcher.deploy_dag import deploy_dag
from trace_platform.dispatcher.heartbeat import heartbeat
from trace_platform.dispatcher.invalidate import invalidate
from trace_platform.dispatcher.process_invalidations import close_invalidations
from trace_platform.dispatcher.prune_history import prune_history
from trace_platform.dispatcher.publish_outbox import publish_outbox
from trace_platform.dispatcher.purge_generation import plan_purge, purge_generations
from trace_platform.dispatcher.reap_leases import reap_leases
from trace_platform.dispatcher.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.relieve_pressure import relieve_pressure
from trace_platform.dispatcher.requeue_failed import requeue_failed
from trace_platform.dispatcher.retry_task import retry_task
from trace_platform.dispatcher.roll_back import roll_back
from trace_platform.dispatcher.route_invalidations import route_invalidations
from trace_platform.dispatcher.start_backfill import start_backfill
from trace_platform.dispatcher.trigger_source import trigger_source
from trace_platform.dispatcher.watch_sources import watch_sources
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import StaleFence, TraceError
from trace_platform.wire.backfill import BackfillRequest
from trace_platform.wire.control import TriggerRequest
from trace_platform.wire.invalidation import InvalidateRequest
from trace_platform.wire.task import HeartbeatRequest

_MANY = 50
_STANDING = """
SELECT d.dag_name, d.job_name, d.current_version, a.dag_version_id
  FROM datasets d JOIN active_dags a ON a.org_id = d.org_id AND a.dag_name = d.dag_name
 WHERE d.output_index = 0
"""
_LIVE = """
SELECT t.id, j.dag_name, j.name, t.status, t.inputs->0->>'partition_key' AS part
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE (t.status IN ('Queued', 'Running') OR t.status = 'Failed' AND t.next_retry_at IS NOT NULL)
 ORDER BY j.dag_name, j.name, t.id
"""
_ENDED_BADLY = """
SELECT t.id, j.dag_name, j.name, t.status, t.inputs->0->>'partition_key' AS part
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.status IN ('Failed', 'Canceled') AND t.next_retry_at IS NULL
 ORDER BY j.dag_name, j.name, t.id
"""


@dataclass
class Play:
    stage: Stage
    shape: Shape
    watch: Watch
    world: World = field(default_factory=World)
    attempts: list[Attempt] = field(default_factory=list)
    # What each version of a DAG says.
    versions: dict[UUID, Definition] = field(default_factory=dict)
    # By version of a source's dataset: the blocks that were emitted, or what was written.
    emitted: dict[UUID, set[int]] = field(default_factory=dict)
    written: dict[UUID, Content] = field(default_factory=dict)
    # By version of a source's dataset: the blocks that were said to be invalid.
    named: dict[UUID, set[int]] = field(default_factory=dict)
    # By version of a source's dataset: the world as its readers were told of it last.
    told: dict[UUID, list[int]] = field(default_factory=dict)
    # Blocks that were mended by hand: in other versions than the current ones they are as before.
    mended: set[int] = field(default_factory=set)
    # Runs of sources that a person canceled.
    stopped: set[UUID] = field(default_factory=set)
    writes: int = 0
    # What happened, for people.
    lines: list[str] = field(default_factory=list)

    # The situation.

    def standing(self) -> list[dict[str, Any]]:
        return self.stage.sql(_STANDING)

    def active(self, dag: str) -> Definition:
        row = next(row for row in self.standing() if row["dag_name"] == dag)
        return self.versions[row["dag_version_id"]]

    def source_version(self) -> UUID:
        for row in self.standing():
            if row["job_name"] == SOURCE:
                found: UUID = row["current_version"]
                return found
        raise AssertionError("every shape has a source")

    def oracle(self) -> Oracle:
        definitions = {dag.name: self.active(dag.name) for dag in self.shape.dags}
        version = self.source_version()
        if self.shape.writes:
            return Oracle(self.shape, definitions, {"p": self.written.get(version, {})})
        emitted = self.emitted.get(version, set())
        named = frozenset(self.named.get(version, set()) - emitted)
        return Oracle(self.shape, definitions, {"p": self.world.read(emitted | named)}, named)

    # What goes on.

    async def begin(self) -> None:
        self.stage.empty()
        content_operator.outside = self.world
        for dag in self.shape.dags:
            await self.deploy(Definition(dag))
            await self.settle()
        self.told[self.source_version()] = list(self.world.forks)

    async def act(self, action: Action) -> None:
        try:
            said = await _VERBS[action.kind](self, *action.args)
        except TraceError as error:
            said = f"refused: {error.code} ({error.message})"
        self.note(action, said)
        await self.look()

    def note(self, action: object, said: str = "") -> None:
        self.lines.append(f"{action!s:<24} {said}".rstrip())

    async def look(self) -> list[Seen]:
        version = self.source_version()
        await self._follow(version)
        return await self.watch.look(
            self.emitted.get(version, set()) | self.written.get(version, {}).keys()
        )

    async def _follow(self, version: UUID) -> None:
        """A follower tells the readers of the source that is current what changed meanwhile."""
        if self.shape.writes:
            return
        told = self.told.setdefault(version, list(self.world.forks))
        known = self.emitted.get(version, set()) | self.named.get(version, set())
        for start, end in self.world.differs(told, known):
            await self.invalidate(f"p.{SOURCE}", start, end)
            self.named.setdefault(version, set()).update(range(start, end + 1))
            self.note(f"  follower: {start}-{end} of p.{SOURCE} is invalid")
        self.told[version] = list(self.world.forks)

    async def settle(self) -> int:
        routed = 0
        while done := await publish_outbox(self.stage.publishing):
            routed += done
        return routed

    async def deploy(self, definition: Definition) -> str:
        me = self.stage.me
        answer = await deploy_dag(me.state, me.org_id, dag_yaml(definition), "dag.yaml")
        self.versions[answer.dag_version] = definition
        self.changed()
        return f"{definition}: {answer.status}"

    def changed(self) -> None:
        """Other versions may be read from now on, to which nothing was done by hand."""
        self.stopped.clear()
        for told in self.told.values():
            for block in self.mended:
                told[block] = 0
        self.mended.clear()

    async def invalidate(self, dataset: str, start: int, end: int) -> str:
        me = self.stage.me
        request = InvalidateRequest(
            dataset=dataset, scope="row_range", start=start, end=end, reason="reorg"
        )
        answer = await invalidate(me.state, me.org_id, request)
        return answer.note or ""

    async def claim(self, most: int) -> list[Attempt]:
        me = self.stage.me
        found = await claim_tasks(me.state, me.grants, "ecs_platform", ["w"] * most)
        claimed = [Attempt(claimed) for _, claimed in found]
        for attempt in claimed:
            if attempt.claimed.task.task_id in self.stopped:
                raise Found("woken", f"{attempt} was canceled, and runs again")
        return sorted(claimed, key=Attempt.sort_key)

    def make_due(self) -> int:
        """What waits for its next attempt has waited long enough."""
        rows = self.stage.sql(
            "UPDATE tasks SET next_retry_at = clock_timestamp() - interval '1 s'"
            " WHERE next_retry_at IS NOT NULL RETURNING id"
        )
        return len(rows)

    async def finish(self, attempt: Attempt) -> str:
        if not attempt.is_source:
            return await complete(self.stage, attempt)
        return await end_badly(self.stage, attempt, "Completed")

    def pick(self, k: int) -> Attempt | None:
        return self.attempts[k % len(self.attempts)] if self.attempts else None

    def take(self, k: int) -> Attempt | None:
        return self.attempts.pop(k % len(self.attempts)) if self.attempts else None

    def job_at(self, k: int) -> tuple[DagShape, str]:
        dag, job = self.shape.jobs[k % len(self.shape.jobs)]
        return dag, job.name


Verb = Callable[..., Awaitable[str]]


async def _trigger(play: Play, start: int, end: int) -> str:
    me = play.stage.me
    request = TriggerRequest(start=start, end=end)
    version = play.source_version()
    await trigger_source(me.state, me.org_id, "p", SOURCE, request)
    play.emitted.setdefault(version, set()).update(range(start, end + 1))
    return ""


async def _reorg(play: Play, start: int, end: int) -> str:
    """The follower tells of it before anything else happens."""
    return f"fork {play.world.reorganise(start, end)}"


async def _reorg_beyond(play: Play, start: int, end: int) -> str:
    play.named.setdefault(play.source_version(), set()).update(range(start, end + 1))
    return await _reorg(play, start, end)


async def _claim(play: Play, most: int, early: int) -> str:
    await play.settle()
    found = await play.claim(most)
    play.attempts += found
    if early:
        for attempt in found:
            if not attempt.is_source:
                attempt.read(play.stage)
    when = " (read now)" if early else ""
    return "; ".join(f"{attempt}{when}" for attempt in found) or "nothing"


async def _run_job(play: Play, k: int, early: int) -> str:
    """One job is quick, and all others are slow."""
    dag, job = play.job_at(k)
    held = await _claim(play, _MANY, early)
    mine = [attempt for attempt in play.attempts if attempt.job == (dag.name, job)]
    play.attempts = [attempt for attempt in play.attempts if attempt not in mine]
    ran = [f"{attempt}: {await play.finish(attempt)}" for attempt in mine]
    return f"claimed {held}; ran {'; '.join(ran) or 'nothing'}"


async def _finish(play: Play, k: int) -> str:
    attempt = play.take(k)
    return f"{attempt}: {await play.finish(attempt)}" if attempt else "nothing"


async def _finish_twice(play: Play, k: int) -> str:
    attempt = play.take(k)
    if attempt is None:
        return "nothing"
    first = await play.finish(attempt)
    return f"{attempt}: {first}, {await play.finish(attempt)}"


async def _fail(play: Play, k: int) -> str:
    return await _broke(play, k, retryable=True)


async def _fail_for_good(play: Play, k: int) -> str:
    return await _broke(play, k, retryable=False)


async def _broke(play: Play, k: int, *, retryable: bool) -> str:
    attempt = play.take(k)
    if attempt is None:
        return "nothing"
    said = {"error_code": "broken", "error_message": "it broke", "retryable": retryable}
    return f"{attempt}: {await end_badly(play.stage, attempt, 'Failed', **said)}"


async def _split(play: Play, k: int) -> str:
    attempt = play.pick(k)
    if attempt is None or attempt.is_source or len(attempt.spans) != 1:
        return "nothing"
    ((start, end),) = attempt.spans
    if start == end:
        return "nothing"
    play.attempts.remove(attempt)
    return f"{attempt}: {await report(play.stage, attempt, split=halves(start, end))}"


async def _expire(play: Play, k: int) -> str:
    attempt = play.pick(k)
    if attempt is None:
        return "nothing"
    play.stage.sql(
        "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 hour'"
        " WHERE id = %s AND attempt = %s AND status = 'Running'",
        attempt.claimed.task.task_id,
        attempt.claimed.attempt,
    )
    await reap_leases(play.stage.me.state)
    return f"{attempt}"


async def _die(play: Play, k: int) -> str:
    said = await _expire(play, k)
    play.take(k)
    return said


async def _heed(play: Play, k: int) -> str:
    attempt = play.pick(k)
    if attempt is None:
        return "nothing"
    fence = attempt.claimed.fence
    request = HeartbeatRequest(
        task_id=fence.task_id, attempt=fence.attempt, lease_token=fence.lease_token
    )
    (answer,) = await heartbeat(play.stage.me.state, [request])
    if isinstance(answer, StaleFence):
        play.attempts.remove(attempt)
        return f"{attempt}: stale"
    if isinstance(answer, TraceError):
        raise answer
    if answer.directive != "cancel":
        return f"{attempt}: {answer.directive}"
    play.attempts.remove(attempt)
    return f"{attempt}: {await end_badly(play.stage, attempt, 'Canceled')}"


async def _route(play: Play) -> str:
    return str(await play.settle())


async def _route_invalidations(play: Play) -> str:
    routed = await route_invalidations(play.stage.me.state)
    await play.settle()
    return str(routed)


async def _close_invalidations(play: Play) -> str:
    return str(await close_invalidations(play.stage.me.state))


async def _invalidate(play: Play, k: int, start: int, end: int) -> str:
    dag, job = play.job_at(k)
    return f"{dag.name}.{job} {await play.invalidate(f'{dag.name}.{job}', start, end)}"


async def _requeue(play: Play) -> str:
    play.make_due()
    await watch_sources(play.stage.me.state, play.stage.me.retry_base_s)
    play.make_due()
    return str(len(await requeue_failed(play.stage.me.state)))


async def _pressure(play: Play) -> str:
    return str(await relieve_pressure(play.stage.me.state))


async def _cancel(play: Play, k: int) -> str:
    live = play.stage.sql(_LIVE)
    if not live:
        return "nothing"
    task = live[k % len(live)]
    me = play.stage.me
    status = await cancel_task(me.state, me.org_id, task["id"])
    if task["name"] == SOURCE:
        await _stop_run(play, task["id"])
    return f"{task['dag_name']}.{task['name']} {task['part']}: {status}"


async def _stop_run(play: Play, task_id: UUID) -> None:
    """Its worker hears of it with its next heartbeat."""
    for k, attempt in enumerate(play.attempts):
        if attempt.claimed.task.task_id == task_id:
            await _heed(play, k)
            break
    (row,) = play.stage.sql("SELECT status, superseded FROM tasks WHERE id = %s", task_id)
    if row["status"] == "Canceled" and not row["superseded"]:
        play.stopped.add(task_id)


async def _retry(play: Play, k: int) -> str:
    ended = play.stage.sql(_ENDED_BADLY)
    if not ended:
        return "nothing"
    task = ended[k % len(ended)]
    me = play.stage.me
    await retry_task(me.state, me.org_id, task["id"])
    play.stopped.discard(task["id"])
    return f"{task['dag_name']}.{task['name']} {task['part']}"


async def _deploy(play: Play, k: int, revision: int) -> str:
    dag, job = play.job_at(k)
    return await play.deploy(play.active(dag.name).revised(job, revision))


async def _reset(play: Play, era: int) -> str:
    """Whoever reads the source is edited with it, so that one can tell what was read when."""
    wanted = replace(play.active("p"), era=era)
    for _, job in play.shape.reads_world:
        wanted = wanted.revised(job, era)
    return await play.deploy(wanted)


async def _advance_deploys(play: Play) -> str:
    return str(await advance_deploys(play.stage.me.state))


async def _roll_back(play: Play, k: int) -> str:
    dag = play.shape.dags[k % len(play.shape.dags)]
    me = play.stage.me
    answer = await roll_back(me.state, me.org_id, dag.name)
    play.changed()
    return str(play.versions[answer.dag_version])


async def _backfill(play: Play, k: int, start: int, end: int, force: int) -> str:
    dag, job = play.job_at(k)
    begun = await play_backfill(play, dag.name, job, start, end, force=bool(force))
    return f"{dag.name}.{job}: {begun}"


async def play_backfill(
    play: Play, dag: str, job: str, start: int, end: int, *, force: bool = False, at_once: int = 50
) -> int:
    """How many inputs it goes through."""
    me = play.stage.me
    request = BackfillRequest(
        dag_name=dag, job_name=job, start=start, end=end, force=force, max_in_flight=at_once
    )
    answer = await start_backfill(me.state, me.org_id, request)
    return answer.backfill.total if answer.backfill else 0


async def _advance_backfills(play: Play) -> str:
    return str(await advance_backfills(play.stage.me.state))


async def _prune(play: Play) -> str:
    return str(await prune_history(play.stage.me.state, 0))


async def _reconcile(play: Play) -> str:
    return str(await reconcile_partitions(play.stage.me.state))


async def _purge(play: Play, k: int) -> str:
    dag, job = play.job_at(k)
    me, name = play.stage.me, f"{dag.name}.{job}"
    plan = await plan_purge(me.state, me.org_id, name, None, 1)
    free = [each.dataset_version for each in plan.generations if each.in_use is None]
    if not free:
        return f"{name}: nothing"
    await purge_generations(me.state, me.data, me.store, me.grants.bucket, me.org_id, name, free)
    return f"{name}: {len(free)}"


async def _garbage(play: Play) -> str:
    me = play.stage.me
    collecting = Collecting(
        me.state, me.store, me.grants.bucket, me.grants.scratch_bucket, grace_s=0.0
    )
    return str(len(await collect_garbage(collecting, 0.0)))


async def _mend(play: Play, start: int, end: int) -> str:
    """Nobody is told that the blocks changed, but whoever reads the world reads them anew. Where
    that is refused, the follower tells of it."""
    version = play.source_version()
    blocks = set(range(start, end + 1)) & play.emitted.get(version, set())
    fork = play.world.reorganise(start, end)
    begun = [
        await play_backfill(play, dag, job, start, end, force=True)
        for dag, job in play.shape.reads_world
    ]
    if not all(begun):
        return f"fork {fork}: nothing to work through"
    for block in range(start, end + 1):
        play.told[version][block] = fork
    play.mended |= blocks
    return f"fork {fork}: {begun} inputs"


async def _write(play: Play, start: int, end: int) -> str:
    """The run of the source commits this range and ends."""
    run = await _source_run(play)
    if run is None:
        return "nothing runs"
    play.attempts.remove(run)
    play.writes += 1
    content: Content = {b: [SOURCE, play.writes] for b in range(start, end + 1)}
    target = run.claimed.task.outputs[0]
    output = content_operator.write(play.stage.me.store, target, BlockRange(start, end), content)
    current = play.source_version() == target.dataset_version
    said = await report(play.stage, run, outputs=[output])
    if said == "completed" and current:
        play.written.setdefault(target.dataset_version, {}).update(content)
    return said


async def _source_run(play: Play) -> Attempt | None:
    """The one that runs, or that can be claimed now."""
    if not any(attempt.is_source for attempt in play.attempts):
        await _requeue(play)
        await play.settle()
        play.attempts += await play.claim(_MANY)
    return next((attempt for attempt in play.attempts if attempt.is_source), None)


async def _work(play: Play) -> str:
    from tests.support.judge.quiet import drain

    return f"{await drain(play)} rounds"


_VERBS: dict[str, Verb] = {
    "trigger": _trigger,
    "trigger_wide": _trigger,
    "trigger_odd": _trigger,
    "reorg": _reorg,
    "reorg_beyond": _reorg_beyond,
    "claim": _claim,
    "run_job": _run_job,
    "finish": _finish,
    "finish_twice": _finish_twice,
    "fail": _fail,
    "fail_for_good": _fail_for_good,
    "split": _split,
    "expire": _expire,
    "die": _die,
    "heed": _heed,
    "route": _route,
    "route_invalidations": _route_invalidations,
    "close_invalidations": _close_invalidations,
    "invalidate": _invalidate,
    "requeue": _requeue,
    "pressure": _pressure,
    "cancel": _cancel,
    "retry": _retry,
    "deploy": _deploy,
    "reset": _reset,
    "advance_deploys": _advance_deploys,
    "roll_back": _roll_back,
    "backfill": _backfill,
    "advance_backfills": _advance_backfills,
    "prune": _prune,
    "reconcile": _reconcile,
    "purge": _purge,
    "garbage": _garbage,
    "work": _work,
    "write": _write,
    "mend": _mend,
}
