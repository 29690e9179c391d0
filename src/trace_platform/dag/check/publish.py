"""What a DAG publishes has to fit the jobs that make it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trace_platform.dag.check.names import Names, Problem
from trace_platform.dag.check.operators import CheckedOperators
from trace_platform.dag.model.dag import Column, DatasetRef, Job, Publish
from trace_platform.dag.model.declared_columns import IN_TABLES, fits_table, misfits
from trace_platform.dag.read.dag_yaml import Path
from trace_platform.operators.contract import Writes
from trace_platform.wire.delivery import DELIVERY_COLUMNS
from trace_platform.wire.manifest import ManifestColumn


def publish_problems(names: Names, operators: CheckedOperators) -> Iterator[Problem]:
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
            yield from _storage_problems(publish, job, path, operators)
            yield from _column_problems(publish, job, path, names, operators)
        yield from _table_problems(publish, path)
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


def _storage_problems(
    publish: Publish, job: Job, path: Path, operators: CheckedOperators
) -> Iterator[Problem]:
    """Only what the author wrote: without a word it is where the job writes."""
    if "storage" not in publish.model_fields_set:
        return
    writes = _writes(job, operators)
    said = f"job '{job.name}' writes"
    if publish.storage == "buffered" and (writes is not None or _only_emits(job)):
        what = writes or "no rows, it only emits"
        yield (*path, "storage"), f"{said} {what}, and a buffered dataset is made of batches"
    if writes == "files" and publish.storage == "postgres":
        yield (*path, "storage"), f"{said} files: write storage: parquet, or leave it out"
    if writes == "tables" and publish.storage == "parquet":
        yield (*path, "storage"), f"{said} tables of Postgres data: write storage: postgres"


def _only_emits(job: Job) -> bool:
    return job.source is not None and job.source.kind in ("manual", "cron")


def _writes(job: Job, operators: CheckedOperators) -> Writes | None:
    """None: only a run would tell."""
    if job.source is not None and job.source.kind == "webhook":
        return "files"
    judged = operators.of(job)
    return None if judged is None else judged.writes


def _column_problems(
    publish: Publish, job: Job, path: Path, names: Names, operators: CheckedOperators
) -> Iterator[Problem]:
    """What no run of the job could commit."""
    known = _known_columns(publish, job, operators)
    if known is None:
        return
    for each in misfits(publish.declared, known):
        if each.committed is None:
            said = f"job '{job.name}' writes no column '{each.column}'"
            said += names.instead(each.column, [column.name for column in known])
        else:
            said = f"job '{job.name}' writes {each.committed}, which is no {each.declared}"
        yield (*path, "schema", each.column), said


def _known_columns(
    publish: Publish, job: Job, operators: CheckedOperators
) -> Sequence[ManifestColumn] | None:
    if job.source is not None and job.source.kind == "webhook":
        return DELIVERY_COLUMNS
    judged, output = operators.of(job), job.output_index(publish.source.output)
    if judged is None or judged.columns is None or output is None or len(publish.sources) > 1:
        return None
    # Too many outputs are reported by themselves.
    return judged.columns[output] if output < len(judged.columns) else None


def _table_problems(publish: Publish, path: Path) -> Iterator[Problem]:
    if publish.storage != "postgres":
        return
    for name, column in (publish.columns or {}).items():
        if not fits_table(column.type):
            said = f"a table of Postgres data has no {column.type}: it holds {IN_TABLES}"
            yield (*path, "schema", name), said


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
