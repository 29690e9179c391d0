"""Whether a job's checks can run, and whom they name."""

from __future__ import annotations

from collections.abc import Iterator

from trace_platform.dag.check.names import Names, Problem
from trace_platform.dag.check.operators import CheckedOperators
from trace_platform.dag.model.dag import Job, JobOutputRef
from trace_platform.dag.model.fields import Path
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.runtimes import Runtimes
from trace_platform.operators.decode.abi_text import parse_function
from trace_platform.operators.decode.encode_call import encode_call, result_of
from trace_platform.wire import check_spec as spec

# Whose workers look at what they have staged; another's would commit it unseen.
OURS = "ecs_platform"


def check_problems(
    job: Job, path: Path, names: Names, runtimes: Runtimes, operators: CheckedOperators
) -> Iterator[Problem]:
    if not job.checks:
        return
    if (why := _cannot_check(job, names, operators)) is not None:
        yield (*path, "checks"), why
        return
    for number, check in enumerate(job.checks):
        where = (*path, "checks", number)
        if job.output_index(check.output) is None:
            yield (*where, "output"), _no_output(job, check.output)
            continue
        yield from _reader_problems(job, check, where, names, runtimes)
        if isinstance(check, spec.EthCall):
            yield from _call_problems(check, where)
        if isinstance(check, spec.ForeignKey):
            yield from _reference_problems(job, check.references, (*where, "references"))


def _cannot_check(job: Job, names: Names, operators: CheckedOperators) -> str | None:
    if job.activation == "source":
        return "a source commits no partitions: check what a job makes of what it emits"
    if job.runtime not in (None, OURS):
        return f"Trace's own workers run checks: use runtime: {OURS}"
    judged = operators.of(job)
    if judged is not None and judged.writes == "tables":
        return f"{job.operator} writes tables, and checks look at files: check what compacts them"
    if judged is not None and not judged.has_rows:
        return f"the outputs of {job.operator} have no rows to check"
    for name, publish in names.dag.publish.items():
        if publish.storage == "buffered" and job.name in [each.job for each in publish.sources]:
            return f"'{name}' is buffered: its rows are published in batches, without a commit"
    return None


def _has_kind(job: Job, runtimes: Runtimes, kind: str) -> bool:
    """One that there is not is reported by itself."""
    try:
        return job.runtime is None or runtimes.get(job.runtime).kind == kind
    except InvalidConfig:
        return kind == "queue"


def _no_output(job: Job, output: int | str) -> str:
    return f"job '{job.name}' has no output {output!r}; it has {', '.join(job.outputs)}"


def _reader_problems(
    job: Job, check: spec.CheckModel, path: Path, names: Names, runtimes: Runtimes
) -> Iterator[Problem]:
    own = (job.name, job.output_index(check.output))
    for number, named in enumerate(check.readers):
        where = (*path, "on_failure", "block", number)
        dag_name, _, reader_name = named.rpartition(".")
        if dag_name not in ("", names.dag.name):
            continue
        reader = names.jobs.get(reader_name)
        if reader is None:
            yield where, f"there is no job '{named}'{names.instead(named, list(names.jobs))}"
        elif not any(
            _is(names, ref, own) for e in reader.inputs for ref in names.producers(e.source)
        ):
            said = f"job '{reader_name}' does not read {job.outputs[own[1] or 0]}"
            yield where, f"{said}: name jobs that do, or write on_failure: block"
        elif _has_kind(reader, runtimes, "dispatcher"):
            said = f"job '{reader_name}' passes events on and reads no rows"
            yield where, f"{said}: name the jobs that read them"


def _is(names: Names, ref: JobOutputRef, own: tuple[str, int | None]) -> bool:
    return names.output(ref) == own


def _call_problems(check: spec.EthCall, path: Path) -> Iterator[Problem]:
    try:
        result_of(check.returns)
    except ValueError as error:
        yield (*path, "returns"), str(error)
    try:
        function = parse_function(check.function)
    except ValueError as error:
        yield (*path, "function"), str(error)
        return
    try:
        encode_call(function, check.arguments)
    except ValueError as error:
        yield (*path, "arguments"), str(error)


def _reference_problems(job: Job, references: spec.References, path: Path) -> Iterator[Problem]:
    if references.input is not None and references.input >= len(job.inputs):
        last = len(job.inputs) - 1
        yield (*path, "input"), f"the job has no input {references.input}; they are 0 to {last}"
    if references.output is not None and job.output_index(references.output) is None:
        yield (*path, "output"), _no_output(job, references.output)
