"""The checks of a job, run on what its attempt has staged: before anybody reads any of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_platform.data import check_alerts
from trace_platform.data.check_alerts import Checked
from trace_platform.domain.errors import CheckFailed, TraceError
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.wire.check import CheckReport
from trace_platform.wire.task import TaskPayload


def run_checks(task: TaskPayload, context: TaskContext, result: Result) -> list[CheckReport]:
    """What they found. Raise what another attempt may mend."""
    if not (task.checks and result.outputs):
        return []
    # Spark's part is looked at only by who needs it.
    from trace_platform.operators.row_checks.evaluate import evaluate

    reports = evaluate(context, task.checks, result.outputs)
    for each in reports:
        say = context.log.info if each.outcome == "passed" else context.log.warning
        facts: dict[str, Any] = {"failing": each.failing, "rows": each.rows}
        say(f"check_{each.outcome}", check=each.name, partition=each.partition_key, **facts)
    _tell(task, context, reports)
    return reports


def refuse_blocked(task: TaskPayload, reports: Sequence[CheckReport]) -> None:
    """Raise CheckFailed where a check that blocks everybody has failed."""
    wrong = [each for each in reports if each.blocks_all and each.outcome != "passed"]
    if not wrong:
        return
    first, more = wrong[0], len(wrong) - 1
    others = f"; and {more} more" if more else ""
    raise CheckFailed(
        f"{_place(task, first)}: {first.name}: {first.message}{others}",
        hint="nothing was committed, readers keep the rows of before; trace checks show "
        f"{task.job.dag_name}.{task.job.name}.{first.output_index} has a sample",
    )


def _tell(task: TaskPayload, context: TaskContext, reports: Sequence[CheckReport]) -> None:
    """The results travel with the completion: an alert that cannot be recorded fails nothing."""
    try:
        check_alerts.tell(context.data(), [_checked(task, each) for each in reports])
    except TraceError as error:
        context.log.warning("check_alerts_not_recorded", reason=error.message)


def _checked(task: TaskPayload, report: CheckReport) -> Checked:
    passed = report.outcome == "passed"
    target = next(o for o in task.outputs if o.output_index == report.output_index)
    blocks = report.blocks_all or bool(report.readers)
    return Checked(
        check=report.name,
        output=_dataset(task, report),
        dataset_uuid=target.dataset_uuid,
        partition=report.partition_key,
        passed=passed,
        severity="critical" if blocks else "warning",
        said="passes again" if passed else report.message,
        facts={
            "dataset_version": str(target.dataset_version),
            "check": report.name,
            "partition": report.partition_key,
            "failing": report.failing,
            "rows": report.rows,
            "blocks": "everybody" if report.blocks_all else report.readers,
            "task_id": str(task.task_id),
        },
    )


def _place(task: TaskPayload, report: CheckReport) -> str:
    return f"{_dataset(task, report)} {report.partition_key}"


def _dataset(task: TaskPayload, report: CheckReport) -> str:
    target = next(o for o in task.outputs if o.output_index == report.output_index)
    return f"{task.job.dag_name}.{task.job.name}.{target.name}"
