"""What differs between the version of a DAG that is active and another, and what follows from it.

Pure: both `trace plan` and `trace deploy` ask this, so that the one says what the other does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_platform.dag.model.dag import Dag, DatasetRef, Job, JobOutputRef
from trace_platform.dag.model.fingerprint import definition_hash, fingerprints, meaning
from trace_platform.domain.own_code import parse
from trace_platform.state.dags import VersionJob
from trace_platform.state.generations import KeptGeneration
from trace_platform.state.plans import PublishedOutput
from trace_platform.wire.plan import JobChange, PublishChange


@dataclass(frozen=True, slots=True)
class Change:
    jobs: list[JobChange]
    publishes: list[PublishChange]


def find_change(
    dag: Dag,
    active: Mapping[str, VersionJob],
    kept: Sequence[KeptGeneration],
    published: Sequence[PublishedOutput],
) -> Change:
    """`active` are the jobs of the active version (`dags.version_jobs`), `kept` the generations
    whose data is there, `published` what the active version publishes."""
    prints = fingerprints(dag)
    # What a deploy that failed has left is a part, and how large a part nobody knows.
    there = {(each.job_name, each.fingerprint) for each in kept if each.built_at is not None}
    edited = {job.name: _edited(dag, job, active.get(job.name)) for job in dag.jobs}
    jobs = [
        _job_change(dag, job, active.get(job.name), prints, edited, active, there)
        for job in dag.jobs
    ]
    gone = [
        JobChange(job=name, action="removed", why=["it is not in the file"])
        for name in active.keys() - prints.keys()
    ]
    return Change(jobs + sorted(gone, key=lambda j: j.job), _publishes(dag, published))


def _job_change(
    dag: Dag,
    job: Job,
    before: VersionJob | None,
    prints: Mapping[str, str],
    edited: Mapping[str, list[str]],
    active: Mapping[str, VersionJob],
    there: set[tuple[str, str | None]],
) -> JobChange:
    reuses = (job.name, prints[job.name]) in there
    if before is None:
        return JobChange(job=job.name, action="added", why=["it is new"], reuses=reuses)
    fields = edited[job.name]
    if before.fingerprint == prints[job.name]:
        if before.config_hash == definition_hash(dag, job):
            return JobChange(job=job.name, action="unchanged", why=[], reuses=reuses)
        why = [f"{field} changed, which does not change its data" for field in fields]
        return JobChange(
            job=job.name, action="updated", why=why or ["it is put differently"], reuses=reuses
        )
    own = list(_deciding(fields, before.definition, dag.effective(job)))
    above = list(_changed_inputs(job, prints, active))
    if own or not above:
        before_it = str(before.definition.get("operator"))
        why = [_changed(field, before_it, job) for field in own] or ["its definition changed"]
        return JobChange(job=job.name, action="changed", why=why + above, reuses=reuses)
    return JobChange(job=job.name, action="affected", why=above, reuses=reuses)


def _changed(field: str, operator: str, job: Job) -> str:
    before, now = parse(operator), parse(job.operator or "")
    if field == "operator" and before and now and before.written == now.written:
        return f"the code of {now.written} changed"
    return f"{field} changed"


def _edited(dag: Dag, job: Job, before: VersionJob | None) -> list[str]:
    """The fields of the definition that are not what they were."""
    old: dict[str, object] = before.definition if before else {}
    new = dag.effective(job)
    if not old:
        return []
    return sorted(f for f in old.keys() | new.keys() if old.get(f) != new.get(f))


def _deciding(
    fields: Sequence[str], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[str]:
    """Those of the edited fields that decide what a job makes. Which inputs it has does, what is in
    them does not; whether a source starts from nothing does."""
    before, after = (meaning(old), meaning(new)) if old else ({}, {})
    for field in fields:
        if field in ("inputs", "bootstrap") or before.get(field) != after.get(field):
            yield field


def _changed_inputs(
    job: Job, prints: Mapping[str, str], active: Mapping[str, VersionJob]
) -> Iterator[str]:
    upstream = [e.source.job for e in job.inputs if isinstance(e.source, JobOutputRef)]
    for name in dict.fromkeys(upstream):
        before = active.get(name)
        if before is None or before.fingerprint != prints[name]:
            yield f"it reads {name}, which is built anew"


def _publishes(dag: Dag, published: Sequence[PublishedOutput]) -> list[PublishChange]:
    before = {each.name: each for each in published}
    found = []
    for name in sorted(dag.publish):
        place = _place(dag, name)
        old = before.get(name)
        if old is None:
            change, why = "published", f"of {place[0]}, output {place[1]}"
        elif (old.job_name, old.output_index) != place:
            change, why = "moved", f"from {old.job_name} to {place[0]}, output {place[1]}"
        elif old.metadata != publish_metadata(dag, name):
            change, why = "redescribed", "what is said of it changed"
        else:
            continue
        found.append(PublishChange(dataset=name, action=change, why=why))
    gone = [
        PublishChange(dataset=name, action="unpublished", why="it is not in the file")
        for name in sorted(before.keys() - dag.publish.keys())
    ]
    return found + gone


def _place(dag: Dag, name: str) -> tuple[str, int]:
    """Whose output a published dataset is. One that several jobs write is none's."""
    publish = dag.publish[name]
    if publish.storage == "buffered":
        return f"@{name}", 0
    return _output(dag, publish.sources[0])


def _output(dag: Dag, ref: JobOutputRef) -> tuple[str, int]:
    job = next(job for job in dag.jobs if job.name == ref.job)
    index = job.output_index(ref.output)
    assert index is not None, "check_dag refuses dangling references"
    return ref.job, index


def published_output(dag: Dag, source: JobOutputRef | DatasetRef) -> tuple[str, int] | None:
    """The job of this DAG that makes what is read, and its output; None of what another makes, or
    several do."""
    if isinstance(source, JobOutputRef):
        return _output(dag, source)
    publish = dag.publish.get(source.dataset)
    if publish is None or publish.storage == "buffered":
        return None
    return _output(dag, publish.sources[0])


def publish_metadata(dag: Dag, name: str) -> dict[str, object]:
    """What the file says of a published dataset, but for whose output it is."""
    publish = dag.publish[name]
    said = publish.model_dump(mode="json", by_alias=True, exclude_none=True)
    metadata = {field: value for field, value in said.items() if field != "from"}
    if publish.storage == "buffered":
        makers = [_output(dag, ref) for ref in publish.sources]
        metadata["producers"] = [{"job": job, "output": output} for job, output in makers]
    if publish.cold is not None:
        job, output = _output(dag, publish.cold)
        metadata["cold"] = {"job": job, "output": output}
    return metadata
