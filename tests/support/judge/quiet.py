"""The end of a history: everything is done that is left to do, then what a person would do."""

from __future__ import annotations

from tests.support.judge.attempt import Attempt
from tests.support.judge.check import check_contents
from tests.support.judge.finding import Found
from tests.support.judge.play import LIVE, MANY, Play
from tests.support.judge.shapes import SOURCE
from tests.support.judge.world import BLOCKS
from trace_platform.dispatcher.pressure.relieve_pressure import relieve_pressure
from trace_platform.dispatcher.redo.advance_backfills import advance_backfills
from trace_platform.dispatcher.redo.list_invalidations import list_invalidations
from trace_platform.dispatcher.redo.process_invalidations import close_invalidations
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.sources.watch_sources import watch_sources
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.domain.errors import TraceError

# More than any history needs: beyond it something goes round in circles.
_ROUNDS = 60
_REPAIRS = 4


async def drain(play: Play) -> int:
    """How many rounds it took until nothing moved."""
    for rounds in range(_ROUNDS):
        if not await _round(play):
            return rounds
        await play.look()
    raise Found("stuck", f"not quiet after {_ROUNDS} rounds: {_alive(play)}")


async def _round(play: Play) -> int:
    """How much moved, of everything that the loops of a dispatcher and a worker do."""
    state = play.stage.dispatcher.state
    if play.shape.writes:
        await watch_sources(state, play.stage.dispatcher.retry_base_s)
    play.make_due()
    play.stage.sql("UPDATE outbox SET available_at = clock_timestamp() WHERE kind = 'route'")
    moved = len(await requeue_failed(state))
    moved += await advance_deploys(state) + await advance_backfills(state)
    if play.shape.mode:
        moved += await relieve_pressure(state)
    moved += await route_invalidations(state) + await close_invalidations(state)
    moved += await play.settle()
    return moved + await _run_all(play)


async def _run_all(play: Play) -> int:
    """What runs ends, then what waits. A source runs on."""
    mine = [attempt for attempt in play.attempts if not attempt.is_source]
    mine += [each for each in await play.claim(MANY) if _runs(play, each)]
    play.attempts = [attempt for attempt in play.attempts if attempt.is_source]
    for attempt in mine:
        said = await play.finish(attempt)
        play.note("  run", f"{attempt}: {said}")
    return len(mine)


def _runs(play: Play, attempt: Attempt) -> bool:
    if attempt.is_source:
        play.attempts.append(attempt)
    return not attempt.is_source


async def judge_end(play: Play, allowed: set[str]) -> None:
    """Raise Found unless the datasets hold what they should once all was done."""
    play.note("-- all that is left to do is done")
    await drain(play)
    _check_ended(play)
    await _repair(play)
    await _check_closed(play)
    missing_too = allowed | ({"missing"} if play.shape.mode == "drop_oldest" else set())
    check_contents(await play.look(), play.oracle(), missing_too)


def _check_ended(play: Play) -> None:
    alive = _alive(play)
    if alive:
        raise Found("stuck", alive)


def _alive(play: Play) -> str:
    """What has not ended, for people."""
    said = [
        f"{row['dag_name']}.{row['name']} {row['part']} is {row['status']}"
        for row in play.stage.sql(LIVE)
        if row["name"] != SOURCE
    ]
    building = play.stage.sql("SELECT dag_name FROM deploys WHERE status = 'Building'")
    said += [f"a deploy of {row['dag_name']} is building" for row in building]
    filling = play.stage.sql("SELECT job_name FROM backfills WHERE ended_at IS NULL")
    said += [f"a backfill of {row['job_name']} goes on" for row in filling]
    return "; ".join(said)


async def _repair(play: Play) -> None:
    """What a person does about tasks that failed for good or were canceled."""
    at_once = 1 if play.shape.mode == "drop_oldest" else MANY
    for dag, job in play.shape.jobs:
        begun = await play.backfill(dag.name, job.name, 0, BLOCKS - 1, at_once=at_once)
        play.note(f"-- backfill {dag.name}.{job.name}", f"{begun} inputs")
        if begun:
            await drain(play)
            _check_ended(play)
    for _ in range(_REPAIRS):
        if not await _retry_open(play):
            return
        await drain(play)


async def _open(play: Play) -> list[tuple[str, object]]:
    dispatcher = play.stage.dispatcher
    found = await list_invalidations(dispatcher.state, dispatcher.org_id, None, 100, open_only=True)
    return [
        (f"{each.dataset} {each.start}-{each.end} ({each.tasks_done} of {each.tasks} tasks)",
         each.failed_task_id)
        for each in found.invalidations
    ]  # fmt: skip


async def _retry_open(play: Play) -> int:
    """How many tasks were retried that keep an invalidation open."""
    dispatcher = play.stage.dispatcher
    retried = 0
    for task_id in dict.fromkeys(task_id for _, task_id in await _open(play)):
        if task_id is None:
            continue
        try:
            await retry_task(dispatcher.state, dispatcher.org_id, task_id)  # type: ignore[arg-type]
            retried += 1
        except TraceError as error:
            play.note("-- retry", f"refused: {error.message}")
    return retried


async def _check_closed(play: Play) -> None:
    left = await _open(play)
    if left:
        said = "; ".join(part for part, _ in left)
        bad = play.stage.sql(
            "SELECT DISTINCT error_code FROM tasks"
            " WHERE status = 'Failed' AND error_code IS NOT NULL"
        )
        codes = ", ".join(sorted(row["error_code"] for row in bad))
        raise Found("open", f"{said}{f'; tasks failed with {codes}' if codes else ''}")
