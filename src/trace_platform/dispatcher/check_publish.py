"""What a DAG publishes has to fit the jobs that make it."""

from __future__ import annotations

from collections.abc import Iterator

from trace_platform.dispatcher.check_dag_names import Names, Problem
from trace_platform.wire.dag import Column, DatasetRef, Job, Publish
from trace_platform.wire.dag_yaml import Path


def publish_problems(names: Names) -> Iterator[Problem]:
    first: dict[object, str] = {}
    for name, publish in names.dag.publish.items():
        path: Path = ("publish", name)
        for number, ref in enumerate(publish.sources):
            where = (*path, "from") if len(publish.sources) == 1 else (*path, "from", number)
            problems = list(names.dangling(ref, where))
            yield from problems
            other = first.setdefault(names.output(ref), name)
            if other != name and not problems:
                yield where, f"this output is published as '{other}' already: leave one out"
        yield from _repeated(publish, path, names)
        yield from _cold_problems(publish, path, names)
        for job in _makers(publish, names):
            yield from _write_mode_problems(publish, job, path)
            yield from _key_problems(publish, job, path, names)
            yield from _format_problems(job, path)
        yield from _origin_problems(publish, path, names)


def _makers(publish: Publish, names: Names) -> list[Job]:
    made_by = dict.fromkeys(ref.job for ref in publish.sources)
    return [names.jobs[job] for job in made_by if job in names.jobs]


def _repeated(publish: Publish, path: Path, names: Names) -> Iterator[Problem]:
    seen: set[object] = set()
    for number, ref in enumerate(publish.sources):
        if names.output(ref) in seen:
            yield (*path, "from", number), "this output is in the list already: leave one out"
        seen.add(names.output(ref))


def _cold_problems(publish: Publish, path: Path, names: Names) -> Iterator[Problem]:
    if publish.cold is None:
        return
    yield from names.dangling(publish.cold, (*path, "cold"))
    if publish.storage == "buffered":
        yield (*path, "cold"), "a buffered dataset has no cold part: remove it"
    elif names.output(publish.cold) == names.output(publish.sources[0]):
        said = "this is the output that the dataset is: name the one that parquet_compact writes"
        yield (*path, "cold"), said


def _write_mode_problems(publish: Publish, job: Job, path: Path) -> Iterator[Problem]:
    if publish.write_mode not in (None, job.update_strategy):
        said = f"job '{job.name}' has update_strategy: {job.update_strategy}"
        cure = f"write write_mode: {job.update_strategy}, or leave it out"
        yield (*path, "write_mode"), f"{said}: {cure}"


def _format_problems(job: Job, path: Path) -> Iterator[Problem]:
    if job.operator == "query_export" and job.config.get("format") == "csv":
        said = f"job '{job.name}' writes CSV, which queries cannot read"
        yield (*path, "from"), f"{said}: write format: parquet, or do not publish it"


def _key_problems(publish: Publish, job: Job, path: Path, names: Names) -> Iterator[Problem]:
    if publish.columns is None:
        return
    for column in job.unique_key or ():
        if column not in publish.columns:
            said = f"the unique_key of job '{job.name}' has the column '{column}', the schema not"
            yield (*path, "schema"), said + names.instead(column, list(publish.columns))


def _origin_problems(publish: Publish, path: Path, names: Names) -> Iterator[Problem]:
    for name, column in (publish.columns or {}).items():
        for number, origin in enumerate(column.origins):
            if said := _origin_problem(origin, names):
                yield (*path, "schema", name, "from", number), said


def _origin_problem(origin: str, names: Names) -> str | None:
    """A column of a job, or of a dataset that this DAG publishes or reads."""
    owner, _, column = origin.partition(".")
    published = names.dag.publish.get(owner)
    if published is not None and published.columns is not None:
        return _column_problem(owner, column, published.columns, names)
    if published is not None or owner in names.jobs or owner in _read_elsewhere(names):
        return None
    known = [*names.jobs, *names.dag.publish, *_read_elsewhere(names)]
    said = f"there is no job '{owner}' here, and no dataset of that name is published or read"
    return said + names.instead(owner, known)


def _column_problem(
    owner: str, column: str, columns: dict[str, Column], names: Names
) -> str | None:
    if column in columns:
        return None
    return f"the schema of '{owner}' has no column '{column}'" + names.instead(
        column, list(columns)
    )


def _read_elsewhere(names: Names) -> list[str]:
    read = {
        edge.source.dataset: None
        for job in names.dag.jobs
        for edge in job.inputs
        if isinstance(edge.source, DatasetRef) and edge.source.dataset
    }
    return list(read)
