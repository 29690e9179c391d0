"""What the operators of a DAG say of themselves, and of the config that each job gives them."""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.dag.event_operators import registry as in_process
from trace_platform.dag.model.dag import Job
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.own_code import Code, code_of, parse
from trace_platform.domain.runtimes import Runtime, Runtimes
from trace_platform.operators import registry
from trace_platform.operators.facts import Judged, judge
from trace_platform.operators.own.inspect import (
    Asked,
    asked_of,
    asked_of_function,
    inspect_operators,
)

# The runtime whose workers are Trace's own.
_OURS = "ecs_platform"


class CheckedOperators:
    """Each is looked at once. Trace's own here; any other in a process of its own, all of them
    together."""

    def __init__(self, jobs: Sequence[Job], runtimes: Runtimes, code: Code) -> None:
        self._judged: dict[int, Judged] = {}
        self._problems: dict[int, str] = {}
        strange: list[tuple[Job, Asked]] = []
        for job in jobs:
            try:
                asked = self._look(job, runtimes, code)
            except InvalidConfig as error:
                self._problems[id(job)] = said(error)
                continue
            if asked is not None:
                strange.append((job, asked))
        answers = inspect_operators([asked for _, asked in strange])
        for (job, _), answer in zip(strange, answers, strict=True):
            if answer.judged is not None:
                self._judged[id(job)] = answer.judged
            elif answer.problem is None and id(job) in self._judged:
                continue  # the function of an operator that is Trace's own
            else:
                self._judged.pop(id(job), None)
                self._problems[id(job)] = answer.problem or "it cannot be used"

    def of(self, job: Job) -> Judged | None:
        """None where it has none that can be used, or where nobody here knows it."""
        return self._judged.get(id(job))

    def problem(self, job: Job) -> str | None:
        """Why its operator cannot be used."""
        return self._problems.get(id(job))

    def _look(self, job: Job, runtimes: Runtimes, code: Code) -> Asked | None:
        """What somebody else has to look at."""
        runtime = _runtime_of(job, runtimes)
        if runtime is None or job.operator is None:
            return None
        ref = parse(job.operator)
        if ref is not None:
            _refuse_own_code(runtime, code)
            return asked_of(job.operator, job.config, code)
        if runtime.kind == "dispatcher":
            self._judged[id(job)] = judge(in_process.load(job.operator), job.config)
        elif runtime.name == _OURS and job.operator in registry.OPERATORS:
            function = code_of(job.operator, job.config)
            if function is not None:
                _refuse_own_code(runtime, code)
            self._judged[id(job)] = judge(registry.load(job.operator), job.config)
            return asked_of_function(function, code) if function is not None else None
        elif runtime.name == _OURS:
            if not registry.is_known(job.operator):
                raise registry.unknown(job.operator)
            return asked_of(job.operator, job.config, code)
        return None


def said(error: InvalidConfig) -> str:
    return error.message + (f"; {error.hint}" if error.hint else "")


def _runtime_of(job: Job, runtimes: Runtimes) -> Runtime | None:
    """One that there is not is reported by itself."""
    try:
        return runtimes.get(job.runtime) if job.runtime else None
    except InvalidConfig:
        return None


def _refuse_own_code(runtime: Runtime, code: Code) -> None:
    if runtime.name != _OURS:
        raise InvalidConfig(
            f"code beside a DAG file runs on workers of {_OURS} alone",
            hint=f"write runtime: {_OURS}, or name an operator that {runtime.name} has",
        )
    if not code.allowed:
        raise InvalidConfig(
            "code beside DAG files is switched off here",
            hint="whoever runs this instance may allow it: [operators] beside_dags = true",
        )
