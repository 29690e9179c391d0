"""Look at what an attempt has staged, by the checks of its job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from trace_platform.data.incidents import database_now
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, TraceError
from trace_platform.operators import frames, scope
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.row_checks import chain_call, drift, own_look
from trace_platform.operators.row_checks.drift_history import History, State
from trace_platform.operators.row_checks.found import Found, sample_of, without_values
from trace_platform.operators.row_checks.one_pass import Measure, Staged, measure
from trace_platform.wire import check_spec as checks
from trace_platform.wire.check import MAX_TEXT, CheckReport, Outcome, SampleRow
from trace_platform.wire.task import OutputCommit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A check, or why it could not be evaluated.
Judged = Found | TraceError


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What the checks of an attempt found, and what later attempts compare with: to be kept with
    the commit, by key."""

    reports: list[CheckReport]
    state: State


def evaluate(
    task: TaskContext, given: Sequence[checks.CheckModel], staged: Sequence[OutputCommit]
) -> Evaluated:
    """Of each check of each staged partition. Raise what another attempt may mend."""
    with frames.opened(task) as data:
        look = _Look(task, data, staged)
        reports = [report for commit in staged for report in look.reports(given, commit)]
        return Evaluated(reports, look.state)


class _Look:
    """At the outputs of one attempt."""

    def __init__(
        self, task: TaskContext, data: frames.Frames, staged: Sequence[OutputCommit]
    ) -> None:
        self._task = task
        self._data = data
        self._staged = staged
        # Once for all checks: they are looked at one after the other.
        self._now = cache(lambda: database_now(task.data()))
        self._before = cache(task.state)
        self.state: State = {}

    def reports(
        self, given: Sequence[checks.CheckModel], commit: OutputCommit
    ) -> Iterator[CheckReport]:
        target = scope.output(self._task, commit.output_index)
        own = [each for each in given if each.output in (target.output_index, target.name)]
        if not own:
            return
        staged = Staged(self._data.staged(commit), commit.row_count, _blocks(commit), self._now)
        for check, judged in zip(own, self._judge(own, staged, commit), strict=True):
            yield self._report(check, commit, judged)

    def _judge(
        self, own: Sequence[checks.CheckModel], staged: Staged, commit: OutputCommit
    ) -> list[Judged]:
        found: dict[int, Judged] = {}
        measures: dict[int, Measure] = {}
        for n, check in enumerate(own):
            try:
                if (one := measure(check, staged)) is not None:
                    measures[n] = one
            except InvalidConfig as error:
                found[n] = error
        found |= self._measured(measures, staged)
        for n, check in enumerate(own):
            if n not in found:
                found[n] = self._tried(partial(self._looked, check, staged, commit))
        return [found[n] for n in range(len(own))]

    def _measured(self, measures: Mapping[int, Measure], staged: Staged) -> dict[int, Judged]:
        """In one aggregation; one by one, so that it is found which, should that not run."""
        try:
            told = self._figures(measures, staged)
        except TraceError as error:
            if error.retryable or len(measures) == 1:
                return {n: _unless_retryable(error) for n in measures}
            alone = [self._measured({n: each}, staged) for n, each in measures.items()]
            return {n: judged for each in alone for n, judged in each.items()}
        return {n: self._tried(partial(each.judge, told[n])) for n, each in measures.items()}

    def _figures(
        self, measures: Mapping[int, Measure], staged: Staged
    ) -> dict[int, dict[str, Any]]:
        self._task.check()
        asked = [
            (n, name, column)
            for n, each in measures.items()
            for name, column in each.figures.items()
        ]
        told: dict[int, dict[str, Any]] = {n: {} for n in measures}
        if asked:
            named = [column.alias(f"f{place}") for place, (_, _, column) in enumerate(asked)]
            with self._data.actions():
                row = staged.frame.agg(*named).first()
            for (n, name, _), value in zip(asked, row or (), strict=True):
                told[n][name] = value
        return told

    def _looked(self, check: checks.CheckModel, staged: Staged, commit: OutputCommit) -> Found:
        self._task.check()
        with self._data.actions():
            if isinstance(check, checks.ForeignKey):
                return own_look.foreign_key(check, staged.frame, self._other(check.references))
            if isinstance(check, checks.Drift):
                return self._drift(check, staged, commit.output_index)
            if isinstance(check, checks.EthCall):
                return chain_call.compare(check, staged, self._task)
            assert isinstance(check, checks.Sql), check.label
            return own_look.sql(check, self._by_name(check, staged))

    def _drift(self, check: checks.Drift, staged: Staged, output: int) -> Found:
        history = History(f"{output}/{check.label}", self._before())
        found, state = drift.judge(check, staged, history)
        self.state |= state
        return found

    def _other(self, references: checks.References) -> DataFrame:
        if references.input is not None:
            return self._data.read(references.input)
        return self._output(scope.output(self._task, references.output or 0).output_index)

    def _by_name(self, check: checks.Sql, staged: Staged) -> dict[str, Callable[[], DataFrame]]:
        own = scope.output(self._task, check.output)
        found: dict[str, Callable[[], DataFrame]] = {own.name: lambda: staged.frame}
        for other in self._task.outputs:
            found.setdefault(other.name, partial(self._output, other.output_index))
        for index in sorted({given.input_index for given in self._task.inputs}):
            found[f"input_{index}"] = partial(self._data.read, index)
        return found

    def _output(self, index: int) -> DataFrame:
        for commit in self._staged:
            if commit.output_index == index:
                return self._data.staged(commit)
        raise InvalidConfig(f"this attempt wrote nothing to output {index}")

    def _tried(self, judge: Callable[[], Found]) -> Judged:
        try:
            return judge()
        except TraceError as error:
            return _unless_retryable(error)

    def _report(
        self, check: checks.CheckModel, commit: OutputCommit, judged: Judged
    ) -> CheckReport:
        judged, sample = self._with_sample(judged)
        failing = judged.failing if isinstance(judged, Found) else 0
        return CheckReport(
            name=check.label,
            kind=check.kind,
            output_index=commit.output_index,
            partition_key=commit.partition_key or "all",
            start=commit.start,
            end=commit.end,
            outcome=_outcome(judged),
            readers=list(check.readers),
            blocks_all=check.blocks_all,
            rows=commit.row_count,
            failing=failing,
            message=judged.message[:MAX_TEXT],
            sample=sample,
        )

    def _with_sample(self, judged: Judged) -> tuple[Judged, list[SampleRow]]:
        """Columns that are not needed to count rows are computed here for the first time: what
        fails then is said of the check, too."""
        if not isinstance(judged, Found) or not judged.failing or judged.rows is None:
            return judged, []
        try:
            with self._data.actions():
                return judged, sample_of(judged.rows())
        except TraceError as error:
            return _unless_retryable(error), []


def _outcome(judged: Judged) -> Outcome:
    if not isinstance(judged, Found):
        return "error"
    return "failed" if judged.failing else "passed"


def _unless_retryable(error: TraceError) -> TraceError:
    """What is wrong with a check is said of it; what is away fails the attempt."""
    if error.retryable:
        raise error
    return without_values(error)


def _blocks(commit: OutputCommit) -> BlockRange | None:
    if commit.start is None or commit.end is None:
        return None
    return BlockRange(commit.start, commit.end)
