"""A part of a dataset is said to be invalid: by a running attempt, or by hand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypedDict
from uuid import UUID, uuid4, uuid5

from trace_platform.dispatcher.datasets.find_dataset import find_dataset
from trace_platform.dispatcher.tasks.trust import Trusts, refuse_untrusted
from trace_platform.domain.block_range import MAX_BLOCK, BlockRange
from trace_platform.domain.errors import BadInput, Conflict, Forbidden
from trace_platform.domain.freshness import Given
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, invalidations, locks, scopes
from trace_platform.state.datasets import Dataset
from trace_platform.state.invalidations import InvalidPart, NewInvalidation, RecordedInvalidation
from trace_platform.state.scopes import ScopeInput
from trace_platform.state.task_rows import HeldTask, Pinned
from trace_platform.wire.invalidation import InvalidateRequest, InvalidateResponse
from trace_platform.wire.task import Invalidation, InvalidScope

NOTHING_UPSTREAM = "nothing upstream holds this range"
# What attempts report has its identity from what it is about.
_NAMESPACE = UUID("8f0a1c52-6d7e-4b3a-9c55-1e2f3a4b5c6d")


def range_of(scope: InvalidScope) -> BlockRange | None:
    """The blocks that it is about; None for a partition that is no block range."""
    if scope.start is not None and scope.end is not None:
        return BlockRange(scope.start, scope.end)
    with suppress(BadInput):
        span = BlockRange.parse(scope.partition_key or "")
        # Beyond it no block lies: such a key is a name.
        return span if span.end <= MAX_BLOCK else None
    return None


async def invalidate(
    state: Database, org_id: UUID, request: InvalidateRequest
) -> InvalidateResponse:
    """By hand, of the current generation. Nobody can make anew what a source made, so its readers
    do their work again; else the producer does, and what it makes goes on from there."""
    async with state.transaction() as tx:
        # What is current stays so until this is on record.
        await locks.share_routing(tx)
        dataset = await find_dataset(tx, org_id, request.dataset)
        job = await dags.active_job(tx, org_id, dataset.dag_name, dataset.job_name)
        shared = dataset.job_name.startswith("@")
        if job is None and not shared:
            raise BadInput(
                f"'{request.dataset}' is made by {dataset.dag_name}.{dataset.job_name}, "
                "which is not deployed any more",
                hint="nothing reads it, and nothing can make it anew",
            )
        given = NewInvalidation(
            **_scope(request),
            id=request.request_id or uuid4(),
            org_id=org_id,
            dataset_uuid=dataset.uuid,
            dataset_version=dataset.current_version,
            # What several jobs write nobody makes anew.
            remade=job is None or job.activation == "source",
        )
        new = await invalidations.record(tx, [given])
        recorded = await invalidations.get(tx, given.id)
        assert recorded is not None, "it was just recorded, or before"
        _refuse_another(request, dataset, recorded, org_id)
        producer = f"{dataset.dag_name}.{dataset.job_name}"
        jobs, note = await _concerned(tx, recorded, producer)
    return InvalidateResponse(
        invalidation_id=recorded.id,
        new=bool(new),
        remade=recorded.remade,
        jobs=jobs,
        note=recorded.note or note,
    )


def _refuse_another(
    request: InvalidateRequest, dataset: Dataset, found: RecordedInvalidation, org_id: UUID
) -> None:
    """Its range may have grown since: what it was merged with is part of it."""
    said = (found.org_id, found.dataset_uuid, found.reason)
    if said != (org_id, dataset.uuid, request.reason):
        raise Conflict(
            f"request {request.request_id} was made before, for something else",
            hint="make another request_id for another request",
        )


async def _concerned(tx: Tx, found: InvalidPart, producer: str) -> tuple[list[str], str | None]:
    """Who has something to do for it as things stand, or why nobody has."""
    if found.remade:
        names = [each.name for each in await invalidations.readers(tx, found.dataset_version)]
        return names, None if names else "nobody reads it"
    generation_id = await scopes.generation_of(tx, found.dataset_version)
    given = await producer_inputs(tx, found, generation_id)
    return ([producer], None) if given else ([], NOTHING_UPSTREAM)


async def producer_inputs(
    tx: Tx, invalid: InvalidPart, generation_id: UUID
) -> Sequence[ScopeInput]:
    """What the producer made the invalid part of, as far as it is there."""
    if invalid.range_start is None or invalid.range_end is None:
        return await scopes.of_partition(tx, generation_id, invalid.partition_key)
    span = BlockRange(invalid.range_start, invalid.range_end)
    return await scopes.overlapping(tx, generation_id, span)


def new_invalidations(
    task: HeldTask, given: Sequence[Invalidation], trusts: Trusts
) -> list[NewInvalidation]:
    """What an attempt reports, as it is recorded. Raise Forbidden for what it neither writes nor
    reads, and for an operator that is not trusted: other jobs run again for it."""
    if given:
        refuse_untrusted(task, trusts, "say that data is invalid")
    written = _generations(task.outputs) if given else set()
    read = _generations(task.inputs) if given else set()
    found = []
    for each in given:
        generation = (str(each.dataset_uuid), str(each.dataset_version))
        if generation not in written | read:
            raise Forbidden(
                f"dataset {each.dataset_uuid} is neither an input nor an output of this attempt"
            )
        found.append(new_invalidation(task, each, remade=generation in written))
    return found


def new_invalidation(task: HeldTask, invalid: Invalidation, *, remade: bool) -> NewInvalidation:
    """Reported twice by one attempt, it is one; with an id of its own also by several."""
    scope = _scope(invalid)
    part = f"{scope['scope']}/{scope['partition_key']}/{scope['start']}-{scope['end']}"
    once = invalid.request_id or f"{task.attempt}/{part}"
    said = f"{task.id}/{once}/{invalid.dataset_version}"
    return NewInvalidation(
        **scope,
        id=uuid5(_NAMESPACE, said),
        org_id=task.org_id,
        dataset_uuid=invalid.dataset_uuid,
        dataset_version=invalid.dataset_version,
        remade=remade,
        task_id=task.id,
        attempt=task.attempt,
    )


class _Scope(TypedDict):
    scope: str
    partition_key: str | None
    start: int | None
    end: int | None
    reason: str


def _scope(scope: InvalidScope) -> _Scope:
    span = range_of(scope)
    return {
        "scope": scope.scope,
        "partition_key": scope.partition_key or (span.key if span else None),
        "start": span.start if span else None,
        "end": span.end if span else None,
        "reason": scope.reason,
    }


def _generations(places: Sequence[Given] | Sequence[Pinned]) -> set[tuple[str, str]]:
    return {(place["dataset_uuid"], place["dataset_version"]) for place in places}
