"""What a backfill of a job would do now: nothing happens."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from trace_platform.dispatcher.versions.find_job import find_job
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import BadInput, DeployInProgress
from trace_platform.domain.merge_ranges import gaps
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import backfills, plans, scopes
from trace_platform.state.backfills import BackfillTarget, Maker
from trace_platform.state.scopes import RangeInput
from trace_platform.wire.backfill import BackfillPlan, BackfillRange, Gap, Upstream
from trace_platform.wire.plan import Amount


@dataclass(frozen=True, slots=True)
class Due:
    """The inputs of a job that hold some of a range, and how far it is with each."""

    job: BackfillTarget
    inputs: list[RangeInput]
    states: dict[int, str]
    force: bool

    @property
    def due(self) -> list[RangeInput]:
        """What a backfill works through, in the order of the blocks."""
        left = [i for i in self.inputs if self.force or self.states[i.event_id] == "due"]
        return sorted(left, key=lambda given: (given.start, given.end, given.event_id))

    @property
    def tasks(self) -> int:
        return tasks_for(self.job.execution_strategy, len(self.due))


async def plan_backfill(state: Database, org_id: UUID, asked: BackfillRange) -> BackfillPlan:
    async with state.transaction() as tx:
        found = await find_due(tx, org_id, asked)
        return await _plan(tx, found, asked)


async def find_due(tx: Tx, org_id: UUID, asked: BackfillRange) -> Due:
    """Raise BadInput for a source: it reads nothing that could be worked through."""
    job = await backfills.target(tx, org_id, asked.dag_name, asked.job_name)
    if job is None:
        await find_job(tx, org_id, asked.dag_name, asked.job_name)
        raise AssertionError("it says which jobs there are")
    if job.activation == "source":
        raise _is_source(job, asked)
    if job.rebuilt:
        raise DeployInProgress(
            f"{asked.dag_name}.{asked.job_name} is being rebuilt by a deploy",
            hint=f"wait for it: trace deploys {asked.dag_name}",
        )
    inputs = await scopes.overlapping(tx, job.generation_id, BlockRange(asked.start, asked.end))
    ids = [given.event_id for given in inputs]
    states = await scopes.states(tx, job.generation_id, ids)
    return Due(job, inputs, states, asked.force)


def tasks_for(strategy: str | None, inputs: int) -> int:
    """How many tasks so many inputs become."""
    return -(-inputs // inputs_per_task(strategy))


def inputs_per_task(strategy: str | None) -> int:
    return scopes.MAX_INPUTS if strategy == "Bulk" else 1


def _is_source(job: BackfillTarget, asked: BackfillRange) -> BadInput:
    name = f"{asked.dag_name}.{asked.job_name}"
    kind = job.kind
    if kind == "manual":
        return BadInput(
            f"{name} is a source: it reads nothing that could be worked through again",
            hint=_trigger(asked.dag_name, asked.job_name, asked.start, asked.end),
        )
    return BadInput(
        f"{name} is a source ({kind}): it makes its data by itself and cannot be backfilled",
        hint="backfill a job that reads it",
    )


async def _plan(tx: Tx, found: Due, asked: BackfillRange) -> BackfillPlan:
    states = list(found.states.values())
    due = found.due
    generation_id = found.job.generation_id
    ids = [given.event_id for given in found.inputs]
    each_s = await backfills.each_s(tx, generation_id, ids)
    held = [BlockRange(given.start, given.end) for given in found.inputs]
    missing = list(gaps(BlockRange(asked.start, asked.end), held))
    makers = await backfills.upstream(tx, generation_id) if missing else []
    return BackfillPlan(
        **asked.model_dump(include=set(BackfillRange.model_fields)),
        inputs=len(found.inputs),
        up_to_date=states.count("done"),
        under_way=states.count("under_way"),
        due=len(due),
        tasks=found.tasks,
        amount=Amount(
            partitions=len(due),
            rows=sum(given.rows for given in due),
            bytes=sum(given.bytes for given in due),
            seconds=None if each_s is None else each_s * found.tasks,
        ),
        slots=await plans.slots(tx),
        gaps=[Gap(start=gap.start, end=gap.end) for gap in missing],
        upstream=[_upstream(row, missing[0].start, missing[-1].end) for row in makers],
    )


def _upstream(maker: Maker, start: int, end: int) -> Upstream:
    dag, job = maker.dag_name, maker.job_name
    command = None
    if maker.activation == "reactive":
        command = f"trace backfill {dag}.{job} --from {start} --to {end}"
    elif maker.kind == "manual":
        command = _trigger(dag, job, start, end)
    return Upstream(job=f"{dag}.{job}", command=command)


def _trigger(dag: str, job: str, start: int, end: int) -> str:
    return f"trace sources trigger {dag} {job} --from {start} --to {end}"
