"""The checks of a job, run on what its attempt has staged: before anybody reads any of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trace_platform.data import check_alerts
from trace_platform.data.check_alerts import Checked as CheckedPartition
from trace_platform.domain.errors import CheckFailed, TraceError
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.wire.check import CheckReport
from trace_platform.wire.task import TaskPayload

# Of keys of the state that are the checks', and not the operator's.
OF_CHECKS = "check/"


@dataclass(frozen=True, slots=True)
class Checked:
    """What they found, and what is to be kept with the commit for those of later attempts."""

    reports: list[CheckReport] = field(default_factory=list)
    state: Mapping[str, Any] = field(default_factory=dict)


def run_checks(task: TaskPayload, context: TaskContext, result: Result) -> Checked:
    """Raise what another attempt may mend."""
    if not (task.checks and result.outputs):
        return Checked()
    # Spark's part is looked at only by who needs it.
    from trace_platform.operators.row_checks.evaluate import evaluate

    own = replace(context, state=lambda: _without_prefix(context.state()))
    evaluated = evaluate(own, task.checks, result.outputs)
    for each in evaluated.reports:
        say = context.log.info if each.outcome == "passed" else context.log.warning
        facts: dict[str, Any] = {"failing": each.failing, "rows": each.rows}
        say(f"check_{each.outcome}", check=each.name, partition=each.partition_key, **facts)
    _tell(task, context, evaluated.reports)
    return Checked(
        evaluated.reports, {OF_CHECKS + key: value for key, value in evaluated.state.items()}
    )


def operators_own(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is not the checks'."""
    return {key: value for key, value in state.items() if not key.startswith(OF_CHECKS)}


def _without_prefix(state: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        key.removeprefix(OF_CHECKS): value
        for key, value in state.items()
        if key.startswith(OF_CHECKS)
    }


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


def _checked(task: TaskPayload, report: CheckReport) -> CheckedPartition:
    passed = report.outcome == "passed"
    target = next(o for o in task.outputs if o.output_index == report.output_index)
    blocks = report.blocks_all or bool(report.readers)
    return CheckedPartition(
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
