"""⑦ What the checks of an attempt found is kept with its end, and named readers are kept from what
failed: in the transaction that commits it, so that nobody can read it in between."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from trace_platform.dispatcher.checks.mask_sample import PersonalColumns, masked
from trace_platform.dispatcher.commits.commit_outputs import Commits
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import checks
from trace_platform.state.checks import Kept, Reader
from trace_platform.state.task_rows import HeldTask, Pinned
from trace_platform.wire.check import CheckReport


async def record_checks(
    tx: Tx, task: HeldTask, reports: Sequence[CheckReport], committed: Commits
) -> None:
    """Of an attempt's outputs. A partition that others hold by now is not among `committed`."""
    if committed:
        await checks.release(tx, [version for (_, version), _ in committed])
    outputs = {output["output_index"]: output for output in task.outputs}
    own = [(each, outputs[each.output_index]) for each in reports if each.output_index in outputs]
    if not own:
        return
    personal = await _personal(tx, task)
    await checks.record(
        tx, task, [_kept(report, output, personal, committed) for report, output in own]
    )
    for report, output in own:
        made = _made(report, output, committed)
        if report.outcome != "passed" and report.readers and made is not None:
            readers = [_reader(task, name) for name in report.readers]
            await checks.withhold(tx, made, report.name, readers)


async def _personal(tx: Tx, task: HeldTask) -> PersonalColumns:
    """Of all that the attempt reads and writes: a statement may show either."""
    about = [UUID(each["dataset_uuid"]) for each in [*task.inputs, *task.outputs]]
    return await checks.personal_columns(tx, about)


def _kept(
    report: CheckReport, output: Pinned, personal: PersonalColumns, committed: Commits
) -> Kept:
    made = _made(report, output, committed)
    return Kept(
        dataset_uuid=output["dataset_uuid"],
        dataset_version=output["dataset_version"],
        partition_key=report.partition_key,
        name=report.name,
        kind=report.kind,
        outcome=report.outcome,
        blocks_all=report.blocks_all,
        readers=report.readers,
        row_count=report.rows,
        failing=report.failing,
        message=report.message,
        sample=masked(report.kind, report.sample, UUID(output["dataset_uuid"]), personal),
        materialisation=None if made is None else str(made),
    )


def _made(report: CheckReport, output: Pinned, committed: Commits) -> UUID | None:
    generation = (UUID(output["dataset_uuid"]), UUID(output["dataset_version"]))
    found = committed.get((generation, report.partition_key))
    return None if found is None else found.id


def _reader(task: HeldTask, name: str) -> Reader:
    """A job of the same DAG, unless the name says another's."""
    dag_name, _, job_name = name.rpartition(".")
    return Reader(task.org_id, dag_name or task.dag_name, job_name)
