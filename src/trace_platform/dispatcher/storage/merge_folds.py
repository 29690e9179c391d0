"""Partitions of folds become few: neighbours are merged in levels, by tasks of the fold's own job.

Such a task reads nothing but the partitions themselves, and counts only while they are current.
"""

from __future__ import annotations

from trace_platform.dag.model.dag import PRIORITY_RANK
from trace_platform.domain.fold_parts import to_merge
from trace_platform.drivers.postgres.database import Database
from trace_platform.operators.transform.mode import TRANSFORMS
from trace_platform.state import folds, locks
from trace_platform.state.folds import FoldGeneration

_LOW = PRIORITY_RANK["low"]


async def merge_folds(state: Database) -> int:
    """How many tasks are new. Safe in several dispatchers at once."""
    async with state.statement() as tx:
        found = await folds.generations(tx, sorted(TRANSFORMS))
    made = 0
    for fold in found:
        made += await _merge(state, fold)
    return made


async def _merge(state: Database, fold: FoldGeneration) -> int:
    async with state.transaction() as tx:
        await locks.share_routing(tx)
        parts = await folds.parts(tx, fold.generation_id)
        made = 0
        for span in to_merge([part.span for part in parts]):
            members = [part for part in parts if span.start <= part.start <= span.end]
            made += await folds.merge(tx, fold, span, members, _LOW)
        return made
