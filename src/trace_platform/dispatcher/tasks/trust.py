"""Which operators the platform vouches for. Trust belongs to the operator, not to where it runs:
Trace's own are trusted, those of packages that whoever runs this instance has installed, and code
beside a DAG because its deployer is trusted: only owners deploy. Whatever else runs is not, unless
`trusted_operators` of its runtime names it.

An attempt of a trusted operator may say that data is invalid, which makes other jobs run again,
commit tables of Postgres data, and query columns that tell about persons.
"""

from __future__ import annotations

from collections.abc import Callable

from trace_platform.domain.errors import Forbidden, InvalidConfig
from trace_platform.domain.own_code import parse
from trace_platform.domain.runtimes import Runtimes
from trace_platform.operators.registry import is_known
from trace_platform.state.task_rows import TaskRow

# Of a task: it has the names of its runtime and of its operator.
Trusts = Callable[[TaskRow], bool]


def nobody(_: TaskRow) -> bool:
    return False


def trusted_by(runtimes: Runtimes) -> Trusts:
    def trusts(task: TaskRow) -> bool:
        return is_trusted(runtimes, task.runtime, task.operator)

    return trusts


def is_trusted(runtimes: Runtimes, runtime_name: str, operator: str) -> bool:
    try:
        runtime = runtimes.get(runtime_name)
    except InvalidConfig:
        # It was switched off, or taken out of the settings, since the job was deployed.
        return False
    # A function may call its code by any name: only our own workers run ours by that name.
    ours = runtime.kind == "dispatcher" or (
        runtime.name == "ecs_platform" and (is_known(operator) or parse(operator) is not None)
    )
    return ours or operator in runtime.trusted_operators


def refuse_untrusted(task: TaskRow, trusts: Trusts, wants: str) -> None:
    if not trusts(task):
        where = f"[runtimes.{task.runtime}] trusted_operators"
        raise Forbidden(
            f"operator '{task.operator}' of runtime {task.runtime} is not trusted to {wants}",
            hint=f"whoever runs this instance may name it in {where}",
        )
