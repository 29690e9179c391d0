"""Generations from before there were fingerprints get theirs, so that they are not built again."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.model.fingerprint import fingerprints
from trace_platform.dag.read.dag_yaml import DagErrors
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, generations


async def adopt_generations(tx: Tx, org_id: UUID, version: UUID | None, runtimes: Runtimes) -> None:
    """Of the version that is active: by its own file. One that is no good any more has none."""
    unnamed = await generations.unnamed(tx, version) if version else {}
    stored = await dags.get_version(tx, org_id, version) if version and unnamed else None
    if stored is None:
        return
    try:
        prints = fingerprints(check_dag(stored.yaml, runtimes))
    except DagErrors:
        return
    for job, generation_id in unnamed.items():
        await generations.name_generation(tx, generation_id, prints[job])
