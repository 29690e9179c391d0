"""What an operator of the Dispatcher's own is given and what it gives back.

It runs inside the transaction that ends its attempt: what it writes, what it emits and the end of
the attempt happen together or not at all. So it is short, and touches nothing but the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from uuid import UUID

from trace_platform.dispatcher.record_events import Generation
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.operators.accepts import Accepts, Updates
from trace_platform.operators.contract import OperatorConfig
from trace_platform.wire.task import DatasetEvent, JobRef, TaskInput


@dataclass(frozen=True, slots=True)
class Woken:
    """One task, as its operator sees it."""

    task_id: UUID
    job_id: UUID
    generation_id: UUID
    job: JobRef
    config: Any  # an instance of the operator's Config
    inputs: tuple[TaskInput, ...]
    # The generations that the attempt may emit events of, by output index.
    outputs: tuple[Generation, ...]


class News(DatasetEvent):
    """An event that is news although its partition was emitted before: once per `repeat`."""

    repeat: UUID


class EventOperator(Protocol):
    name: ClassVar[str]
    Config: ClassVar[type[OperatorConfig]]
    # The outputs it emits to, by index; None when the job's YAML alone names them.
    output_names: ClassVar[tuple[str, ...] | None]
    # What wakes it, and the updates of its outputs; None: those that woke it.
    accepts: ClassVar[Accepts]
    emits: ClassVar[Updates | None]

    @staticmethod
    def problems(inputs: int, config: Any) -> Iterator[str]:
        """What is wrong with a valid config in a job that reads so many datasets."""

    async def run(self, tx: Tx, task: Woken) -> Sequence[DatasetEvent]:
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
