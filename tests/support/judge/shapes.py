"""The DAGs that histories are played on, and their YAML with any edits.

A revision of a content job is a number in its config; of a splitter, the size of its pieces. An era
of a source is a number in its config: with another one the source begins empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import yaml

SOURCE = "source"
REVISIONS = (1, 2, 3)
_PIECES = {1: 10, 2: 5, 3: 8}
# Of drop_oldest: the next one is dropped. Else some are ready while others wait.
_DEPTHS = {"drop_oldest": 1, "pause": 2, "coalesce": 2}

Fields = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class JobShape:
    name: str
    # A job of the same DAG, or with `@` before it a dataset of another.
    reads: str = SOURCE
    operator: Literal["content", "range_splitter"] = "content"
    fields: Fields = ()
    # Jobs that wake it too, with the same blocks.
    also: tuple[str, ...] = ()
    # A dataset of another DAG whose content it takes, and which does not wake it.
    only_reads: str = ""


@dataclass(frozen=True)
class DagShape:
    name: str
    jobs: tuple[JobShape, ...]
    source: Literal["manual", "writer", "none"] = "manual"

    def job(self, name: str) -> JobShape:
        return next(job for job in self.jobs if job.name == name)

    @property
    def foreign(self) -> bool:
        """Whether another DAG feeds it."""
        return any(job.reads.startswith("@") for job in self.jobs)


@dataclass(frozen=True)
class Shape:
    name: str
    said: str
    dags: tuple[DagShape, ...]

    def dag(self, name: str) -> DagShape:
        return next(dag for dag in self.dags if dag.name == name)

    @property
    def jobs(self) -> list[tuple[DagShape, JobShape]]:
        """Upstream first."""
        return [(dag, job) for dag in self.dags for job in dag.jobs]

    @property
    def mode(self) -> str | None:
        """The backpressure mode of its job that has one."""
        limits = [_plain(job.fields).get("backpressure") for _, job in self.jobs]
        return next((limit["mode"] for limit in limits if limit), None)

    @property
    def reads_world(self) -> list[tuple[str, str]]:
        """The jobs, with their DAGs, that read announced ranges."""
        return [
            (dag.name, job.name)
            for dag, job in self.jobs
            if job.operator == "content" and not job.only_reads and announced(dag, job.reads)
        ]

    @property
    def splitter(self) -> str | None:
        """The dataset of announced ranges that every job reads which reads the world, if it is a
        splitter's."""
        read = {f"{dag}.{self.dag(dag).job(job).reads}" for dag, job in self.reads_world}
        return read.pop() if len(read) == 1 and f"p.{SOURCE}" not in read else None

    @property
    def writes(self) -> bool:
        """Whether its source writes files by itself."""
        return any(dag.source == "writer" for dag in self.dags)

    def datasets(self) -> Iterator[tuple[str, DagShape, str]]:
        """Published name, DAG and job."""
        for dag in self.dags:
            if dag.source == "writer":
                yield f"{dag.name}_{SOURCE}", dag, SOURCE
            for job in dag.jobs:
                if job.operator == "content":
                    yield f"{dag.name}_{job.name}", dag, job.name


def _plain(fields: Fields) -> dict[str, Any]:
    """Tuples can be compared and hashed, and mean mappings."""
    return {name: _plain(each) if isinstance(each, tuple) else each for name, each in fields}


def _limited(mode: str) -> Fields:
    return (("backpressure", (("max_queue_depth", _DEPTHS[mode]), ("mode", mode))),)


def _strategy(name: str) -> Fields:
    return (("execution_strategy", name),)


def _one(*jobs: JobShape, source: Literal["manual", "writer"] = "manual") -> tuple[DagShape, ...]:
    return (DagShape("p", jobs, source),)


def _with(job: JobShape, fields: Fields) -> JobShape:
    return replace(job, fields=fields)


_A = JobShape("a")
_B = JobShape("b", "a")
_SHAPES = (
    Shape("A", "source -> a", _one(_A)),
    Shape(
        "B",
        "source -> split -> ingest -> decode",
        _one(
            JobShape("split", operator="range_splitter"),
            JobShape("ingest", "split"),
            JobShape("decode", "ingest"),
        ),
    ),
    Shape(
        "C",
        "p: source -> a; r: x reads p_a -> y",
        (*_one(_A), DagShape("r", (JobShape("x", "@p_a"), JobShape("y", "x")), "none")),
    ),
    Shape("D", "source -> a (Bulk) -> b", _one(_with(_A, _strategy("Bulk")), _B)),
    Shape("Ep", "source -> a (pause) -> b", _one(_with(_A, _limited("pause")), _B)),
    Shape("Ec", "source -> a (coalesce) -> b", _one(_with(_A, _limited("coalesce")), _B)),
    Shape("Ed", "source -> a (drop_oldest) -> b", _one(_with(_A, _limited("drop_oldest")), _B)),
    Shape(
        "F",
        "source -> a (PerPartition) -> b (PerPartition)",
        _one(*(_with(job, _strategy("PerPartition")) for job in (_A, _B))),
    ),
    Shape("G", "always_on source that writes files -> a", _one(_A, source="writer")),
    Shape(
        "H",
        "source -> split; a reads both -> b",
        _one(
            JobShape("split", operator="range_splitter"),
            JobShape("a", "split", also=(SOURCE,)),
            _B,
        ),
    ),
    Shape(
        "Hc",
        "the same, a takes them together (coalesce)",
        _one(
            JobShape("split", operator="range_splitter"),
            JobShape("a", "split", also=(SOURCE,), fields=_limited("coalesce")),
            _B,
        ),
    ),
    Shape(
        "I",
        "p: source -> a; r: split reads p_a -> decode, which only reads p_a",
        (
            *_one(_A),
            DagShape(
                "r",
                (
                    JobShape("split", "@p_a", "range_splitter"),
                    JobShape("decode", "split", only_reads="@p_a"),
                ),
                "none",
            ),
        ),
    ),
)  # fmt: skip
SHAPES = {shape.name: shape for shape in _SHAPES}


def chosen(names: str) -> list[Shape]:
    """`A,E` is shape A and every shape whose name begins with E."""
    wanted = [name.strip() for name in names.split(",")]
    return [s for s in _SHAPES if any(s.name.startswith(name) for name in wanted)]


@dataclass(frozen=True)
class Definition:
    """A version of a DAG."""

    dag: DagShape
    era: int = 1
    revisions: tuple[tuple[str, int], ...] = ()

    def revision(self, job: str) -> int:
        return dict(self.revisions).get(job, 1)

    def revised(self, job: str, revision: int) -> Definition:
        changed: Mapping[str, int] = dict(self.revisions) | {job: revision}
        kept = {name: number for name, number in changed.items() if number != 1}
        return replace(self, revisions=tuple(sorted(kept.items())))

    def __str__(self) -> str:
        edits = [f"{job} r{revision}" for job, revision in self.revisions]
        return f"{self.dag.name} era {self.era}{''.join(f', {each}' for each in edits)}"


@cache
def dag_yaml(definition: Definition) -> str:
    dag = definition.dag
    jobs = [*_source(definition), *(_job(definition, job) for job in dag.jobs)]
    published = [job.name for job in dag.jobs if job.operator == "content"]
    if dag.source == "writer":
        published.insert(0, SOURCE)
    data = {
        "name": dag.name,
        "defaults": {"max_attempts": 2},
        "jobs": jobs,
        "publish": {f"{dag.name}_{name}": {"from": {"job": name}} for name in published},
    }
    return yaml.safe_dump(data, sort_keys=False)


def _source(definition: Definition) -> Iterator[dict[str, Any]]:
    shape = definition.dag.source
    if shape == "none":
        return
    made: dict[str, Any] = {
        "name": SOURCE,
        "activation": "source",
        "source": {"kind": "manual" if shape == "manual" else "always_on"},
        "bootstrap": {"reset_outputs": True},
        "config": {"era": definition.era},
    }
    if shape == "writer":
        made |= {"runtime": "ecs_platform", "operator": "writer"}
    yield made


def _job(definition: Definition, job: JobShape) -> dict[str, Any]:
    inputs: list[dict[str, Any]] = [{"from": _from(name)} for name in (job.reads, *job.also)]
    if job.only_reads:
        inputs.append({"from": _from(job.only_reads), "trigger": False})
    return {
        "name": job.name,
        "activation": "reactive",
        "runtime": "ecs_platform",
        "operator": job.operator,
        "inputs": inputs,
        "config": _config(definition, job),
        **_plain(job.fields),
    }


def _from(name: str) -> dict[str, str]:
    return {"dataset": name[1:]} if name.startswith("@") else {"job": name}


def _config(definition: Definition, job: JobShape) -> dict[str, Any]:
    revision = definition.revision(job.name)
    if job.operator == "range_splitter":
        return {"chunk_blocks": _PIECES[revision]}
    reads = "world" if announced(definition.dag, job.only_reads or job.reads) else "files"
    return {"job": job.name, "revision": revision, "reads": reads}


def announced(dag: DagShape, name: str) -> bool:
    """Whether it emits ranges and no files."""
    if name == SOURCE:
        return dag.source == "manual"
    return not name.startswith("@") and dag.job(name).operator == "range_splitter"
