"""Whether datasets are up to date, and what keeps each from being so.

A dataset is stale when something upstream of it has work left, and blocked when that will not be
done unless somebody acts. Each job is judged once, however many datasets depend on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from trace_platform.data.alerts_read import StandingAlert
from trace_platform.dispatcher.checks.withheld_reasons import by_reader, withheld_reasons
from trace_platform.dispatcher.datasets.survey_datasets import (
    JobKey,
    Survey,
    dataset_label,
    job_label,
)
from trace_platform.dispatcher.datasets.wrong_datasets import parts_read
from trace_platform.dispatcher.health.check_health import MAX_SILENCE_S
from trace_platform.dispatcher.health.standing_alerts import KnownWrong, of_version
from trace_platform.dispatcher.health.wait_reasons import hold_reasons
from trace_platform.dispatcher.pressure.list_queues import holds_by_job
from trace_platform.dispatcher.sources.list_sources import state_of, stuck_words
from trace_platform.domain.errors import CheckFailed
from trace_platform.domain.event_scope import event_scope
from trace_platform.domain.figures import count, duration
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import checks, overview, registry, sources, staleness
from trace_platform.state.registry import BuildingDeploy, DatasetNow, DeployedJob
from trace_platform.state.sources import ListedSource
from trace_platform.state.staleness import EndedTask, OpenInvalidations, Staleness
from trace_platform.wire.control import PRIORITIES, Hold, Reason
from trace_platform.wire.dataset import DatasetReason, DatasetState

RANKS: dict[DatasetState, int] = {"blocked": 0, "stale": 1, "fresh": 2}
# A head that has just moved on is no delay.
MAX_BEHIND = 20


@dataclass(frozen=True, slots=True)
class Found:
    """A reason at the job that has it."""

    level: DatasetState
    at: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Judgement:
    survey: Survey
    # What is wrong with a job concerns all its outputs; with a dataset, those who read it.
    jobs: dict[JobKey, list[Found]]
    datasets: dict[UUID, list[Found]]

    def reasons(self, dataset_uuid: UUID) -> list[DatasetReason]:
        """What blocks first; of those alike, the furthest upstream."""
        found = sorted(self._found(dataset_uuid), key=lambda item: (RANKS[item[1].level], -item[0]))
        return [
            DatasetReason(
                code=each.reason.code,
                text=each.reason.text,
                cure=each.reason.cure,
                level=each.level,
                at=each.at,
                steps=steps,
            )
            for steps, each in found
        ]

    def state(self, dataset_uuid: UUID) -> DatasetState:
        levels = [each.level for _, each in self._found(dataset_uuid)]
        return min(levels, key=RANKS.__getitem__, default="fresh")

    def _found(self, dataset_uuid: UUID) -> Iterator[tuple[int, Found]]:
        """With how many jobs away it is."""
        distances = {dataset_uuid: 0}
        for job, steps in self.survey.upstream(self.survey.producer(dataset_uuid)).items():
            yield from ((steps, each) for each in self.jobs.get(job, ()))
            for read in self.survey.reads.get(job, ()):
                distances.setdefault(read, steps + 1)
        for each, steps in distances.items():
            yield from ((steps, found) for found in self.datasets.get(each, ()))


async def judge_datasets(
    tx: Tx,
    org_id: UUID,
    survey: Survey,
    dataset_uuids: Iterable[UUID],
    wrong: KnownWrong,
    *,
    messages: bool = False,
) -> Judgement:
    """Looks at what these datasets come from, at one moment: in a snapshot. With `messages` the
    reasons repeat what errors, alerts and invalidations say, values of rows included: for owners
    alone."""
    wanted: dict[JobKey, None] = {}
    for dataset_uuid in dataset_uuids:
        wanted |= dict.fromkeys(survey.upstream(survey.producer(dataset_uuid)))
    jobs = {job: survey.jobs[job] for job in wanted if job in survey.jobs}
    work = await staleness.of_generations(tx, [row.generation_id for row in jobs.values()])
    failed = await staleness.tasks(tx, [t for each in work.values() for t in each.failed_task_ids])
    held = await holds_by_job(tx, org_id)
    deploys = await registry.building(tx, org_id)
    listed = {(r.dag_name, r.job_name): r for r in await sources.listing(tx, org_id)}
    silences = {
        (r.dag_name, r.job_name): r.silent_s for r in await overview.source_silences(tx, org_id)
    }
    withheld = by_reader(await checks.standing(tx, org_id))
    found: dict[JobKey, list[Found]] = defaultdict(list)
    for job, row in jobs.items():
        name, work_left = job_label(job), work[row.generation_id]
        holds = [h for h in held[job] if PRIORITIES[row.priority] in h.priorities]
        found[job] += _failures(name, work_left, failed, messages)
        found[job] += [
            Found("blocked", name, each) for each in withheld_reasons(name, withheld.get(job, ()))
        ]
        found[job] += _holds(name, row, work_left, holds)
        found[job] += _source(name, listed.get(job), silences.get(job, 0.0), messages)
        found[job] += _inputs(name, work_left, deploys.get(job[0]))
        found[job] += _tasks(name, row, work_left)
    return Judgement(survey, dict(found), await _judge_outputs(tx, survey, wanted, wrong, messages))


async def _judge_outputs(
    tx: Tx, survey: Survey, jobs: Iterable[JobKey], wrong: KnownWrong, messages: bool
) -> dict[UUID, list[Found]]:
    outputs = [survey.datasets[each] for job in jobs for each in survey.writes.get(job, ())]
    parts = await parts_read(tx, outputs)
    read = [version for each in parts.values() for _, version in each]
    invalid = await staleness.open_invalidations(tx, read)
    found: dict[UUID, list[Found]] = defaultdict(list)
    for row in outputs:
        of_dataset = found[row.dataset_uuid]
        for dataset_uuid, version in parts[row.dataset_uuid]:
            if version in invalid:
                of_dataset.append(_invalid(row, invalid[version], messages))
            alerts = of_version(wrong, dataset_uuid, version)
            of_dataset += [_known_wrong(row, alert, messages) for alert in alerts]
        if _is_too_old(row):
            of_dataset.append(_too_old(row))
        if (row.dag_name, row.job_name) not in survey.jobs:
            of_dataset.append(_unmade(row))
    return dict(found)


def _failures(
    name: str, work: Staleness, failed: dict[UUID, EndedTask], messages: bool
) -> Iterator[Found]:
    shown = [failed[task_id] for task_id in work.failed_task_ids if task_id in failed]
    for n, task in enumerate(shown):
        more = work.failed - len(shown)
        others = f"; so did {count(more, 'task')} more" if more and n == len(shown) - 1 else ""
        yield Found("blocked", name, _ended_badly(name, task, others, messages))


def _ended_badly(name: str, task: EndedTask, others: str, messages: bool) -> Reason:
    given = task.input or {}
    # The key of a partition can be the id that a webhook's sender gave.
    scope = event_scope(given.get("partition_key"), given.get("cursor")) if messages else ""
    of = f" ({scope})" if scope else ""
    did = "failed for good" if task.status == "Failed" else "was canceled"
    said = _error(task, messages)
    if task.error_code == CheckFailed.code:
        return Reason(
            code=CheckFailed.code,
            text=f"a blocking check keeps back what task {task.task_id} of {name}{of} wrote"
            f" {duration(task.age_s or 0.0)} ago{said}{others}",
            cure=f"trace checks show {name}; mend the cause, then trace tasks retry {task.task_id}",
        )
    return Reason(
        code="failed" if task.status == "Failed" else "canceled",
        text=f"task {task.task_id} of {name}{of} {did} {duration(task.age_s or 0.0)} ago"
        f"{said}{others}",
        cure=f"mend the cause, then trace tasks retry {task.task_id}",
    )


def _error(row: EndedTask | ListedSource, messages: bool) -> str:
    if not row.error_code:
        return ""
    return f": [{row.error_code}]" + (f" {row.error_message}" if messages else "")


def _holds(name: str, job: DeployedJob, work: Staleness, holds: list[Hold]) -> Iterator[Found]:
    """A job that is paused with nothing to do keeps nobody waiting; a source always could."""
    waits = work.pending or job.activation == "source"
    for reason in hold_reasons(name, holds, {}):
        level: DatasetState = "blocked" if reason.code == "paused" else "stale"
        yield Found(level if waits else "fresh", name, reason)


def _source(
    name: str, source: ListedSource | None, silent_s: float, messages: bool
) -> Iterator[Found]:
    """A source that has to run, and does not or is not heard. Others emit when they are told to."""
    if source is None or source.kind != "always_on":
        return
    state, run, said = state_of(source), source.run_id, _error(source, messages)
    if state == "Canceled":
        text, cure = f"the source {name} was canceled", f"trace tasks retry {run}"
        yield Found("blocked", name, Reason(code="source_down", text=text, cure=cure))
    elif state == "Dead":
        text = f"the source {name} is dead, and is started again{said}"
        cure = f"mend the cause; trace tasks show {run} has its attempts"
        yield Found("stale", name, Reason(code="source_down", text=text, cure=cure))
    elif state == "Pending":
        text, cure = f"the source {name} has not started", f"trace why {name} says why"
        yield Found("stale", name, Reason(code="source_down", text=text, cure=cure))
    elif state == "Stuck":
        text = f"the source {name} {stuck_words(source)}"
        text += f": {(source.progress or {})['stuck']}" if messages else ""
        cure = "trace rpc status shows its nodes; it goes on by itself"
        yield Found("stale", name, Reason(code="source_stuck", text=text, cure=cure))
    elif state == "Running" and silent_s > MAX_SILENCE_S:
        text = f"the source {name} was not heard for {duration(silent_s)}"
        yield Found("stale", name, Reason(code="silent", text=text))
    elif state == "Running":
        yield from _distance_to_head(name, source)


def _distance_to_head(name: str, source: ListedSource) -> Iterator[Found]:
    """Of a source that gets on and has heard how far the outside is."""
    progress = source.progress or {}
    if progress.get("heard_s") is None:
        return
    last, head = progress["done"], progress["total"]
    text = (
        f"the source {name} stands at {last:,}, {head - last:,} behind the head, {head:,},"
        f" which was heard of {duration(progress['heard_s'])} ago"
    )
    if head - last > MAX_BEHIND:
        yield Found("stale", name, Reason(code="behind", text=text, cure="it catches up by itself"))
    else:
        yield Found("fresh", name, Reason(code="head", text=text))


def _inputs(name: str, work: Staleness, deploy: BuildingDeploy | None) -> Iterator[Found]:
    """Events that no task of the job has."""
    if work.held:
        since = f", which is built for {duration(deploy.age_s)}" if deploy else ""
        text = f"{_events(work.held)} for {name} wait until the deploy{since} ends"
        cure = f"trace deploys {name.partition('.')[0]} shows how far it is"
        yield Found("stale", name, Reason(code="building", text=text, cure=cure))
    if work.not_routed + work.owed:
        text = f"{_events(work.not_routed + work.owed)} for {name} are recorded and no tasks yet"
        cure = "trace status shows whether the dispatcher runs"
        yield Found("stale", name, Reason(code="not_routed", text=text, cure=cure))
    if work.lost:
        text = f"{_events(work.lost)} were never given to {name}, event {work.first_not_given}"
        text += " the first: they are found and given within five minutes"
        yield Found("stale", name, Reason(code="not_given", text=text))


def _tasks(name: str, job: DeployedJob, work: Staleness) -> Iterator[Found]:
    """What is under way. The attempt of a source never ends: that is no delay."""
    if job.activation == "source" or not work.unfinished:
        return
    counts = {
        "running": (work.running, "running"),
        "ready": (work.ready, "ready"),
        "deferred": (work.deferred, "deferred until the queue is shorter"),
        "retrying": (work.retrying, "waiting to be tried again"),
    }
    said = ", ".join(f"{count:,} {words}" for count, words in counts.values() if count)
    text = f"tasks of {name}: {said}"
    cure = f"trace why {name} says what they wait for"
    if work.running:
        yield Found("stale", name, Reason(code="running", text=text, cure=cure))
    elif work.ready:
        yield Found("stale", name, Reason(code="ready", text=text, cure=cure))
    elif work.deferred:
        yield Found("stale", name, Reason(code="deferred", text=text, cure=cure))
    else:
        yield Found("stale", name, Reason(code="retrying", text=text, cure=cure))


def _invalid(row: DatasetNow, invalid: OpenInvalidations, messages: bool) -> Found:
    label, count = dataset_label(row), invalid.invalidations
    parts = "a part of it is" if count == 1 else f"{count:,} parts of it are"
    text = f"{label}: {parts} known to be wrong and not made anew yet"
    text += f": {invalid.reason}" if messages else ""
    return Found("stale", label, Reason(code="invalid", text=text))


def _known_wrong(row: DatasetNow, alert: StandingAlert, messages: bool) -> Found:
    """Nothing more is done about what was given up; of all else an invalidation is under way."""
    label, is_given_up = dataset_label(row), alert.facts.get("is_given_up", False)
    text = f"{label} is known to be wrong for {duration(alert.age_s)}: [{alert.code}]"
    text += f" {alert.message}" if messages else ""
    cure = f"mend the cause and trace invalidate {label}, or trace alerts ack {alert.alert_id}"
    reason = Reason(code="known_wrong", text=text, cure=cure)
    return Found("blocked" if is_given_up else "stale", label, reason)


def max_age_of(row: DatasetNow) -> float | None:
    age = row.metadata.get("max_age")
    return None if age is None else float(age)


def _is_too_old(row: DatasetNow) -> bool:
    limit = max_age_of(row)
    return row.name is not None and limit is not None and row.unchanged_s > limit


def _too_old(row: DatasetNow) -> Found:
    label, limit = dataset_label(row), max_age_of(row) or 0.0
    text = f"{label} did not change for {duration(row.unchanged_s)}, and may be"
    text += f" {duration(limit)} old (max_age)"
    cure = f"trace why {row.dag_name}.{row.job_name} says what it waits for"
    return Found("stale", label, Reason(code="too_old", text=text, cure=cure))


def _unmade(row: DatasetNow) -> Found:
    label, job = dataset_label(row), f"{row.dag_name}.{row.job_name}"
    text = f"no deployed DAG has the job {job} any more: {label} stays as it is"
    return Found("stale", label, Reason(code="unmade", text=text))


def _events(count: int) -> str:
    return "1 event" if count == 1 else f"{count:,} events"
