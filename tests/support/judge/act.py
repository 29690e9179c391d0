"""What the actions of a history do: each calls the control plane's own verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

from tests.support.judge import content_operator
from tests.support.judge.attempt import Attempt, end_badly, halves, report
from tests.support.judge.history import Action
from tests.support.judge.play import ENDED_BADLY, LIVE, MANY, Play
from tests.support.judge.quiet import drain
from tests.support.judge.shapes import SOURCE
from tests.support.judge.world import Content, ranges, shown
from trace_platform.dispatcher.events.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.pressure.relieve_pressure import relieve_pressure
from trace_platform.dispatcher.redo.advance_backfills import advance_backfills
from trace_platform.dispatcher.redo.process_invalidations import close_invalidations
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.sources.trigger_source import trigger_source
from trace_platform.dispatcher.sources.watch_sources import watch_sources
from trace_platform.dispatcher.storage.collect_garbage import Collecting, collect_garbage
from trace_platform.dispatcher.storage.prune_history import prune_history
from trace_platform.dispatcher.storage.purge_generation import plan_purge, purge_generations
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.dispatcher.tasks.heartbeat import heartbeat
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import StaleFence, TraceError
from trace_platform.wire.control import TriggerRequest
from trace_platform.wire.task import HeartbeatRequest

Verb = Callable[..., Awaitable[str]]


async def act(play: Play, action: Action) -> None:
    """Raise Found when something is wrong after it. What the control plane refuses is no harm."""
    try:
        said = await _VERBS[action.kind](play, *action.args)
    except TraceError as error:
        said = f"refused: {error.code} ({error.message})"
    play.note(action, said)
    await play.look()


async def _trigger(play: Play, start: int, end: int) -> str:
    dispatcher = play.stage.dispatcher
    request = TriggerRequest(start=start, end=end)
    version = play.source_version()
    await trigger_source(dispatcher.state, dispatcher.org_id, "p", SOURCE, request)
    play.emitted.setdefault(version, set()).update(range(start, end + 1))
    return ""


async def _reorg(play: Play, start: int, end: int) -> str:
    """The follower tells of it before anything else happens."""
    return f"fork {play.world.reorganise(start, end)}"


async def _reorg_split(play: Play, start: int, end: int) -> str:
    """The readers hear of it by one input alone. What was not emitted the splitter does not know:
    the follower tells of that."""
    fork = play.world.reorganise(start, end)
    version = play.source_version()
    blocks = set(range(start, end + 1)) & play.emitted.get(version, set())
    for first, last in ranges(blocks):
        await play.invalidate(str(play.shape.splitter), first, last)
    for block in blocks:
        play.told[version][block] = fork
    play.mended |= blocks
    return f"fork {fork}: {shown(blocks)} of {play.shape.splitter} is invalid"


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
    held = await _claim(play, MANY, early)
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
    await reap_leases(play.stage.dispatcher.state)
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
    (answer,) = await heartbeat(play.stage.dispatcher.state, [request])
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
    routed = await route_invalidations(play.stage.dispatcher.state)
    await play.settle()
    return str(routed)


async def _close_invalidations(play: Play) -> str:
    return str(await close_invalidations(play.stage.dispatcher.state))


async def _invalidate(play: Play, k: int, start: int, end: int) -> str:
    dag, job = play.job_at(k)
    return f"{dag.name}.{job} {await play.invalidate(f'{dag.name}.{job}', start, end)}"


async def _requeue(play: Play) -> str:
    play.make_due()
    await watch_sources(play.stage.dispatcher.state, play.stage.dispatcher.retry_base_s)
    play.make_due()
    return str(len(await requeue_failed(play.stage.dispatcher.state)))


async def _delay(play: Play) -> str:
    """Another dispatcher holds them, or one of them could not be routed at first."""
    play.stage.sql(
        "UPDATE outbox SET available_at = clock_timestamp() + interval '1 h' WHERE kind = 'route'"
    )
    return "routes wait"


async def _pressure(play: Play) -> str:
    return str(await relieve_pressure(play.stage.dispatcher.state))


async def _cancel(play: Play, k: int) -> str:
    live = play.stage.sql(LIVE)
    if not live:
        return "nothing"
    task = live[k % len(live)]
    dispatcher = play.stage.dispatcher
    status = await cancel_task(dispatcher.state, dispatcher.org_id, task["id"])
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
        play.stopped.add(play.source_version())


async def _retry(play: Play, k: int) -> str:
    ended = play.stage.sql(ENDED_BADLY)
    if not ended:
        return "nothing"
    task = ended[k % len(ended)]
    dispatcher = play.stage.dispatcher
    await retry_task(dispatcher.state, dispatcher.org_id, task["id"])
    if task["name"] == SOURCE:
        play.stopped.clear()
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
    return str(await advance_deploys(play.stage.dispatcher.state))


async def _roll_back(play: Play, k: int) -> str:
    dag = play.shape.dags[k % len(play.shape.dags)]
    dispatcher = play.stage.dispatcher
    answer = await roll_back(dispatcher.state, dispatcher.org_id, dag.name)
    play.changed()
    return str(play.versions[answer.dag_version])


async def _backfill(play: Play, k: int, start: int, end: int, force: int) -> str:
    dag, job = play.job_at(k)
    begun = await play.backfill(dag.name, job, start, end, force=bool(force))
    return f"{dag.name}.{job}: {begun}"


async def _advance_backfills(play: Play) -> str:
    return str(await advance_backfills(play.stage.dispatcher.state))


async def _prune(play: Play) -> str:
    return str(await prune_history(play.stage.dispatcher.state, 0))


async def _reconcile(play: Play) -> str:
    return str(await reconcile_partitions(play.stage.dispatcher.state))


async def _purge(play: Play, k: int) -> str:
    dag, job = play.job_at(k)
    dispatcher, name = play.stage.dispatcher, f"{dag.name}.{job}"
    plan = await plan_purge(dispatcher.state, dispatcher.org_id, name, None, 1)
    free = [each.dataset_version for each in plan.generations if each.in_use is None]
    if not free:
        return f"{name}: nothing"
    await purge_generations(
        dispatcher.state,
        dispatcher.data,
        dispatcher.store,
        dispatcher.grants.bucket,
        dispatcher.org_id,
        name,
        free,
    )
    return f"{name}: {len(free)}"


async def _garbage(play: Play) -> str:
    dispatcher = play.stage.dispatcher
    collecting = Collecting(
        dispatcher.state,
        dispatcher.store,
        dispatcher.grants.bucket,
        dispatcher.grants.scratch_bucket,
        grace_s=0.0,
    )
    return str(len(await collect_garbage(collecting, 0.0)))


async def _mend(play: Play, start: int, end: int) -> str:
    """Nobody is told that the blocks changed, but whoever reads the world reads them anew. Where
    that is refused, the follower tells of it."""
    version = play.source_version()
    blocks = set(range(start, end + 1)) & play.emitted.get(version, set())
    fork = play.world.reorganise(start, end)
    begun = [
        await play.backfill(dag, job, start, end, force=True) for dag, job in play.shape.reads_world
    ]
    if not all(begun):
        return f"fork {fork}: nothing to work through"
    # No backfill works through what was said to be invalid and never emitted.
    unreached = play.named.get(version, set()) - blocks
    for block in set(range(start, end + 1)) - unreached:
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
    output = content_operator.write(
        play.stage.dispatcher.store, target, BlockRange(start, end), content
    )
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
        play.attempts += await play.claim(MANY)
    return next((attempt for attempt in play.attempts if attempt.is_source), None)


async def _work(play: Play) -> str:
    return f"{await drain(play)} rounds"


_VERBS: dict[str, Verb] = {
    "trigger": _trigger,
    "trigger_wide": _trigger,
    "trigger_odd": _trigger,
    "reorg": _reorg,
    "reorg_split": _reorg_split,
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
    "delay": _delay,
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
