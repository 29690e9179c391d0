"""Which columns of the jobs that are built anew change, by what they are made of in two versions.

Pure. Data is built anew job by job; this tells people what of it will not be as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trace_platform.dag.model.dag import Dag, Job
from trace_platform.dispatcher.versions.find_change import published_output
from trace_platform.sql.derivation import Derivation, DerivedColumn, Origin
from trace_platform.wire.plan import ColumnChange, JobChange, OutputChange

# A job and the index of one of its outputs.
Output = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Changed:
    """Of an output. Names of columns in lower case, as statements compare them."""

    rows: bool = False
    columns: frozenset[str] = field(default_factory=frozenset)

    def holds(self, column: str) -> bool:
        return column.lower() in self.columns


_NOTHING = _Changed()


def with_columns(
    dag: Dag,
    jobs: Sequence[JobChange],
    before: Mapping[Output, Derivation],
    after: Mapping[Output, Derivation],
) -> list[JobChange]:
    """The changes of jobs, those of their columns told where both versions know theirs."""
    found = _Comparison(dag, jobs, before, after)
    return [each.model_copy(update={"columns": found.of_job(each)}) for each in jobs]


class _Comparison:
    def __init__(
        self,
        dag: Dag,
        jobs: Sequence[JobChange],
        before: Mapping[Output, Derivation],
        after: Mapping[Output, Derivation],
    ) -> None:
        self._dag, self._before, self._after = dag, before, after
        self._jobs = {job.name: job for job in dag.jobs}
        self._built = {each.job for each in jobs if each.builds}
        self._known: dict[Output, tuple[_Changed, OutputChange] | None] = {}

    def of_job(self, change: JobChange) -> list[OutputChange] | None:
        """None where it cannot be told, or nothing is built anew."""
        if change.action not in ("changed", "affected"):
            return None
        outputs = self._jobs[change.job].outputs
        found = [self._of_output((change.job, index)) for index in range(len(outputs))]
        if any(each is None for each in found):
            return None
        return [each[1] for each in found if each is not None]

    def _of_output(self, output: Output) -> tuple[_Changed, OutputChange] | None:
        if output not in self._known:
            self._known[output] = self._compared(output)
        return self._known[output]

    def _compared(self, output: Output) -> tuple[_Changed, OutputChange] | None:
        before, after = self._before.get(output), self._after.get(output)
        job = self._jobs[output[0]]
        inputs = self._inputs(job)
        if before is None or after is None or inputs is None:
            return None
        rows = (
            before.rows_meaning != after.rows_meaning
            or any(each.rows for each in inputs)
            or any(_changes(inputs, each) for each in after.rows_from)
        )
        columns = list(self._columns(job, before, after, inputs))
        names = frozenset(each.column.lower() for each in columns)
        change = OutputChange(output=job.outputs[output[1]], rows=rows, columns=columns)
        return _Changed(rows, names), change

    def _inputs(self, job: Job) -> list[_Changed] | None:
        """What becomes of each input; None where that of one cannot be told."""
        found = []
        for edge in job.inputs:
            output = published_output(self._dag, edge.source)
            if output is None or output[0] not in self._built:
                found.append(_NOTHING)
            elif (known := self._of_output(output)) is not None:
                found.append(known[0])
            else:
                return None
        return found

    def _columns(
        self, job: Job, before: Derivation, after: Derivation, inputs: Sequence[_Changed]
    ) -> Iterator[ColumnChange]:
        old = {each.name.lower(): each for each in before.columns}
        new = {each.name.lower(): each for each in after.columns}
        for name, column in new.items():
            if name not in old:
                yield ColumnChange(column=column.name, change="added", why="it is new")
            elif why := self._why(job, old[name], column, inputs):
                yield ColumnChange(column=column.name, change="changed", why=why)
        for name, column in old.items():
            if name not in new:
                yield ColumnChange(column=column.name, change="removed", why="it is not made")

    def _why(
        self, job: Job, old: DerivedColumn, new: DerivedColumn, inputs: Sequence[_Changed]
    ) -> str | None:
        if old.type and new.type and old.type != new.type:
            return f"its type is {new.type} and was {old.type}"
        if old.meaning != new.meaning:
            return "it is computed in another way"
        above = next((each for each in new.origins if _changes(inputs, each)), None)
        if above is None:
            return None
        output = published_output(self._dag, job.inputs[int(above.source)].source)
        assert output is not None, "only what this DAG makes changes here"
        return f"it comes from {above.column} of {output[0]}, which changes"


def _changes(inputs: Sequence[_Changed], origin: Origin) -> bool:
    return inputs[int(origin.source)].holds(origin.column)
