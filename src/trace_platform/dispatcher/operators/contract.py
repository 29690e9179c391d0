"""What an operator of the Dispatcher's own is given and what it gives back.

It runs inside the transaction that ends its attempt: what it writes, what it emits and the end of
the attempt happen together or not at all. So it is short, and touches nothing but the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from trace_platform.dag.event_operators.contract import DeclaredOperator
from trace_platform.dispatcher.events.record_events import Generation
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.wire.task import DatasetEvent, JobRef, TaskInput


@dataclass(frozen=True, slots=True)
class EventTask:
    """One task, as its operator sees it."""

    task_id: UUID
    job_id: UUID
    generation_id: UUID
    job: JobRef
    config: Any  # an instance of the operator's Config
    inputs: tuple[TaskInput, ...]
    # The generations that the attempt may emit events of, by output index.
    outputs: tuple[Generation, ...]


class RepeatedEvent(DatasetEvent):
    """An event that is news although its partition was emitted before: once per `repeat`."""

    repeat: UUID


class EventOperator(DeclaredOperator, Protocol):
    async def run(self, tx: Tx, task: EventTask) -> Sequence[DatasetEvent]:
        """What it emits. Of one partition only the first counts, unless it is `News`."""


def relayed(given: TaskInput, output: Generation) -> DatasetEvent:
    """The event of an input, as one of an output."""
    dataset_uuid, dataset_version = output
    return DatasetEvent(
        dataset_uuid=dataset_uuid,
        dataset_version=dataset_version,
        cursor=given.cursor,
        partition_key=given.partition_key,
        start=given.start,
        end=given.end,
    )
