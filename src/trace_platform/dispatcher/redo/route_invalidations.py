"""What was said to be invalid becomes tasks: of its readers, or of its producer.

Those of one dataset that overlap or touch are one: cost follows what was rewritten, not how often
somebody said so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from uuid import UUID

import structlog

from trace_platform.dispatcher.redo.invalidate import NOTHING_UPSTREAM, producer_inputs
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.freshness import Given
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import events, invalidations, locks, scopes
from trace_platform.state.events import NewEvent
from trace_platform.state.invalidations import DueInvalidation, Merged, WaitingTask

log = structlog.get_logger()

# Of these all that waits is looked at: what overlaps must meet.
DATASETS = 20
# Routed in one transaction: deploys wait for it.
AT_ONCE = 200


async def route_invalidations(state: Database) -> int:
    """How many were routed; 0 while another dispatcher is at it."""
    async with state.transaction() as tx:
        if not await locks.route_invalidations(tx):
            return 0
        await locks.share_routing(tx)
        due = await invalidations.due(tx, DATASETS)
        # By dataset: whoever records events takes the locks of several in this order.
        leads = sorted(islice(_merged(due), AT_ONCE), key=lambda each: each[0].dataset_version)
        if leads:
            await invalidations.merge(tx, leads)
        for lead, span, members in leads:
            merged = _as_merged(lead, span, members)
            if lead.remade:
                await _have_read_again(tx, merged, span)
            else:
                await _have_made_anew(tx, merged)
    return sum(len(members) for _, _, members in leads)


def _merged(due: Sequence[DueInvalidation]) -> Iterator[Merged]:
    """By dataset and kind: the oldest of what is one stands for it, with the range of all."""
    alike: dict[tuple[UUID, bool, str | None], list[DueInvalidation]] = defaultdict(list)
    for each in due:
        key = each.partition_key if each.range_start is None else None
        alike[each.dataset_version, each.remade, key].append(each)
    for (_, _, key), rows in alike.items():
        if key is not None:
            yield rows[0], None, rows
            continue
        spans = [_range(row) for row in rows]
        for merged in merge_ranges(spans):
            members = [rows[place] for place in merged.members]
            yield members[0], merged.span, members


def _range(invalid: DueInvalidation) -> BlockRange:
    assert invalid.range_start is not None, "it has neither a key nor a range"
    assert invalid.range_end is not None, "a range has an end"
    return BlockRange(invalid.range_start, invalid.range_end)


def _as_merged(
    lead: DueInvalidation, span: BlockRange | None, members: Sequence[DueInvalidation]
) -> DueInvalidation:
    ranks = [each.priority for each in members if each.priority is not None]
    return replace(
        lead,
        range_start=span.start if span else None,
        range_end=span.end if span else None,
        partition_key=span.key if span else lead.partition_key,
        # As urgent as the most urgent of them; without one of its own it is the job's.
        priority=min(ranks) if len(ranks) == len(members) else None,
    )


async def _have_read_again(tx: Tx, lead: DueInvalidation, span: BlockRange | None) -> None:
    # Also without a reader: a version that is rolled back to may be one.
    await events.record(tx, [_event(lead, span)])
    readers = await invalidations.readers(tx, lead.dataset_version)
    if not readers:
        await _say_processed(tx, lead, "nobody reads it")
        return
    generations = [each.generation_id for each in readers]
    waiting = await invalidations.waiting_tasks(tx, lead.dataset_version, generations)
    scope = _Scope(
        str(lead.dataset_version),
        lead.partition_key,
        span.start if span else None,
        span.end if span else None,
    )
    for task in _first_of_each(waiting, scope):
        await invalidations.give(tx, lead, task)
        await invalidations.link(tx, lead.id, [task.id])


def _event(lead: DueInvalidation, span: BlockRange | None) -> NewEvent:
    return NewEvent(
        org_id=lead.org_id,
        dataset_uuid=lead.dataset_uuid,
        dataset_version=lead.dataset_version,
        partition_key=span.key if span else lead.partition_key,
        start=span.start if span else None,
        end=span.end if span else None,
        priority=lead.priority,
        invalidation=lead.id,
    )


async def _have_made_anew(tx: Tx, lead: DueInvalidation) -> None:
    generation_id = lead.generation_id
    given = await producer_inputs(tx, lead, generation_id) if generation_id else ()
    if generation_id is None or not given:
        await _say_processed(tx, lead, NOTHING_UPSTREAM)
        return
    waiting = await invalidations.waiting_tasks(tx, lead.dataset_version, [generation_id])
    linked, missing = [], []
    for each in given:
        scope = _Scope(str(each.dataset_version), each.partition_key, each.start, each.end)
        found = list(_first_of_each(waiting, scope))
        linked += [task.id for task in found]
        if not found:
            missing.append(each.event_id)
    made = await scopes.redo(
        tx,
        generation_id,
        missing,
        f"#{lead.id}",
        rank=lead.priority or 0,
        invalidation_id=lead.id,
    )
    await invalidations.link(tx, lead.id, [*made, *linked])


@dataclass(frozen=True, slots=True)
class _Scope:
    """A part of a version of a dataset: a range, or what has a key."""

    dataset_version: str
    partition_key: str | None
    start: int | None
    end: int | None


def _first_of_each(waiting: Sequence[WaitingTask], scope: _Scope) -> Iterator[WaitingTask]:
    """Of each generation one task that will read all of the scope, if there is one."""
    found: set[UUID] = set()
    for task in waiting:
        if task.generation_id not in found and any(_covers(given, scope) for given in task.inputs):
            found.add(task.generation_id)
            yield task


def _covers(given: Given, scope: _Scope) -> bool:
    if given.get("invalidation") is None or given["dataset_version"] != scope.dataset_version:
        return False
    if scope.start is None or scope.end is None:
        return bool(given.get("partition_key") == scope.partition_key)
    return "start" in given and bool(given["start"] <= scope.start and given["end"] >= scope.end)


async def _say_processed(tx: Tx, lead: DueInvalidation, note: str) -> None:
    await invalidations.process_now(tx, lead, note)
    log.info(
        "invalidation_has_no_task",
        invalidation=str(lead.id),
        dataset=str(lead.dataset_uuid),
        scope=lead.partition_key,
        reason=note,
    )
