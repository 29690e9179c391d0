"""Versions that are being built cut over when nothing is left to build, or fail when a task did."""

from __future__ import annotations

import structlog

from trace_platform.dispatcher.versions.build_stage import build_stage, unfinished
from trace_platform.dispatcher.versions.cut_over import cut_over
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, deploys, generations, locks, tasks
from trace_platform.state.deploys import Deploy, Ended
from trace_platform.state.generations import Unfinished

log = structlog.get_logger()


async def advance_deploys(state: Database) -> int:
    """How many ended. Safe in several dispatchers at once."""
    async with state.transaction() as tx:
        underway = await deploys.building(tx)
        looks = [(deploy, await unfinished(tx, deploy)) for deploy in underway]
    ended = 0
    for deploy, left in looks:
        if left.done or left.failed:
            ended += await _end(state, deploy)
    return ended


async def _end(state: Database, deploy: Deploy) -> int:
    async with state.transaction() as tx:
        await locks.deploys(tx, deploy.org_id)
        await locks.routing(tx)
        held = await deploys.hold(tx, deploy.id)
        if held is None:
            return 0
        # Looked at again: nothing is routed now, so nothing can come of what is done.
        left = await unfinished(tx, held)
        if left.failed:
            error = await _reason(tx, left)
            await give_up(tx, deploy, "Failed", error)
        elif left.done and held.waiting:
            await build_stage(tx, held, held.waiting)
            return 0
        elif left.done:
            await cut_over(tx, deploy.id)
        else:
            return 0
    facts = {"dag": deploy.dag_name, "dag_version": str(deploy.target)}
    if left.failed:
        log.warning("deploy_failed", task=str(left.failed_task_id), **facts)
    else:
        log.info("deploy_cut_over", **facts)
    return 1


async def _reason(tx: Tx, left: Unfinished) -> str:
    assert left.failed_task_id is not None
    task = await tasks.get(tx, left.failed_task_id)
    more = f" (and {left.failed - 1} more)" if left.failed > 1 else ""
    error = f"task {left.failed_task_id} of it failed{more}"
    if task is None or task.error_code is None:
        return error
    said = (task.error_message or "").partition("\n")[0]
    return f"{error}: [{task.error_code}] {said[:500]}"


async def give_up(tx: Tx, deploy: Deploy, status: Ended, error: str) -> None:
    """The version before goes on, and is given what came meanwhile. The caller holds the locks."""
    await deploys.finish(tx, deploy.id, status, error)
    await generations.supersede_tasks(tx, deploy.building, f"its deploy ended: {error}")
    await generations.subscribe(tx, deploy.org_id)
    kept = {job.generation_id for job in (await dags.version_jobs(tx, deploy.target)).values()}
    before = (await dags.version_jobs(tx, deploy.from_version)).values()
    held = [job.generation_id for job in before if job.generation_id not in kept]
    await generations.owe_missing(tx, held, deploy.id)
