"""`aggregator`: one event once a key has arrived from so many of the job's inputs.

Arrivals of a key take turns at its row in `correlations`, which is closed once and for good. So
there is one event for a key, whatever arrives twice, late, or in the moment of the time-out.
"""

from __future__ import annotations

from trace_platform.dag.event_operators import aggregator
from trace_platform.dag.event_operators.aggregator import Config
from trace_platform.dispatcher.events.record_events import Generation
from trace_platform.dispatcher.operators.contract import EventTask, relayed
from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import correlations
from trace_platform.wire.task import DatasetEvent, TaskInput


class Aggregator(aggregator.Aggregator):
    async def run(self, tx: Tx, task: EventTask) -> list[DatasetEvent]:
        arrivals: dict[str, list[TaskInput]] = {}
        for given in task.inputs:
            arrivals.setdefault(_key(given, task), []).append(given)
        # One order for everybody: two tasks never wait for each other in a circle.
        return [
            relayed(given[0], task.outputs[0])
            for key, given in sorted(arrivals.items())
            if await _completes(tx, task, key, given)
        ]


async def _completes(tx: Tx, task: EventTask, key: str, given: list[TaskInput]) -> bool:
    """Whether these arrivals are the last that the key needs."""
    config: Config = task.config
    found = await correlations.arrive(
        tx,
        task.generation_id,
        task.job_id,
        key,
        sorted({each.input_index for each in given}),
        relayed(given[0], task.outputs[0]).model_dump(mode="json"),
        config.timeout,
    )
    if found is None or found.arrived < (found.inputs if config.need == "all" else config.need):
        return False
    await correlations.complete(tx, task.generation_id, key)
    return True


def _key(given: TaskInput, task: EventTask) -> str:
    """With the generation that is written: one that is built anew correlates anew."""
    return f"{_version(task.outputs[0])}:{_named(given, task.config.by)}"


def _version(generation: Generation) -> str:
    return str(generation[1])


def _named(given: TaskInput, by: str | None) -> str:
    # With its kind: cursor 5 and a partition called 5 are different keys.
    has, key = (
        ("cursor", str(given.cursor))
        if given.cursor is not None
        else ("partition", given.partition_key)
    )
    if by not in (None, has):
        raise InvalidConfig(
            f"inputs[{given.input_index}] brought a {has}, and the job aggregates by {by}",
            hint=f"read a dataset whose events have a {by}, or leave 'by' out",
        )
    return f"{has}:{key}"
