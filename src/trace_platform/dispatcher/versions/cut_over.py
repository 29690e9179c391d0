"""A version becomes the active one: all pointers, names and routes in the caller's transaction.

Readers see all of the version before, or all of this one. What is left of the one before ends and
commits nothing any more; what came meanwhile for the part that was built is owed to the router.
"""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.abis.tell_changes import tell_changes
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import abis, dags, datasets, deploys, generations, invalidations, registry
from trace_platform.state.deploys import Deploy


async def cut_over(tx: Tx, deploy_id: UUID) -> None:
    """End a deploy that is building well. The caller holds the lock of routing."""
    deploy = await deploys.hold(tx, deploy_id)
    assert deploy is not None, "only a deploy that is building is cut over"
    await deploys.finish(tx, deploy_id, "CutOver")
    await generations.mark_built(tx, deploy.building)
    await activate(tx, deploy)


async def activate(tx: Tx, deploy: Deploy) -> None:
    """Make `to_version` of a deploy or rollback the active one. The caller holds the lock."""
    org_id, dag_name = deploy.org_id, deploy.dag_name
    before = await dags.version_jobs(tx, deploy.from_version)
    after = await dags.version_jobs(tx, deploy.target)
    old = {job.generation_id for job in before.values()}
    new = {job.generation_id for job in after.values()}
    await dags.activate(tx, org_id, dag_name, deploy.target)
    # Tasks before datasets, in the order in which a completion locks them.
    await generations.hand_over_tasks(tx, {job.generation_id: job.job_id for job in after.values()})
    await generations.supersede_tasks(
        tx, sorted(old - new), "another version of the DAG took the place of this task's"
    )
    moved = await _point(tx, deploy, sorted(new))
    await invalidations.follow(tx, moved)
    await abis.untell_moved(tx)
    await generations.subscribe(tx, org_id)
    await generations.owe_missing(tx, sorted(new - old), deploy.id)
    await generations.redo_outlived(tx, sorted(new - old))
    await generations.give_again(tx, org_id, dag_name, list(moved), list(moved.values()), deploy.id)
    # ABIs that changed while this was built, or since it gave way.
    await tell_changes(tx, org_id)


async def _point(tx: Tx, deploy: Deploy, generation_ids: list[UUID]) -> dict[UUID, UUID]:
    """The pointers and names of the version. The datasets that moved, or are called otherwise, and
    their versions."""
    org_id, dag_name = deploy.org_id, deploy.dag_name
    names = await datasets.names_of_dag(tx, org_id, dag_name)
    published = await dags.publishes(tx, deploy.target)
    moved = await datasets.point_at(tx, generation_ids)
    await datasets.publish_as(tx, org_id, dag_name, published)
    await registry.set_column_lineage(tx, org_id, dag_name, published)
    await datasets.share(tx, org_id, dag_name, deploy.target)
    renamed = [p.dataset_uuid for p in published if names.get(p.name) != p.dataset_uuid]
    return moved | await datasets.current_versions(tx, renamed)
