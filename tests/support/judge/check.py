"""What has to be true at every moment, and when all is quiet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.support.judge.content_operator import load
from tests.support.judge.finding import Found
from tests.support.judge.shapes import SOURCE, DagShape, Definition, Shape
from tests.support.judge.stage import Stage
from tests.support.judge.world import Content, Value, shown
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.domain.errors import NotFound
from trace_platform.wire.query import DatasetRef, ResolveRequest


@dataclass(frozen=True)
class Seen:
    """A published dataset at a moment."""

    name: str
    dag: DagShape
    job: str
    version: UUID
    content: Content


@dataclass
class Watch:
    """Looks at all published datasets in one moment, again and again."""

    stage: Stage
    shape: Shape
    # Files never change.
    files: dict[str, Content] = field(default_factory=dict)
    # By version: the blocks that were readable in it.
    readable: dict[UUID, set[int]] = field(default_factory=dict)

    async def look(self, kept: set[int]) -> list[Seen]:
        """Raise Found when a rule is broken that holds at every moment. What is `kept` was emitted,
        and so may not vanish."""
        seen = await self._resolve()
        _check_mix(seen)
        for each in seen:
            self._check_vanished(each, kept)
        return seen

    async def _resolve(self) -> list[Seen]:
        places = list(self.shape.datasets())
        refs = [DatasetRef(name=name) for name, _, _ in places]
        request = ResolveRequest(datasets=refs)
        found = await resolve_datasets(self.stage.looking, self.stage.dispatcher.org_id, request)
        return [
            Seen(name, dag, job, held.dataset_version, self._content(name, held.files))
            for (name, dag, job), held in zip(places, found.datasets, strict=True)
        ]

    def _content(self, name: str, files: list[str]) -> Content:
        content: Content = {}
        for uri in files:
            held = self._load(name, uri)
            twice = content.keys() & held.keys()
            if twice:
                raise Found("duplicate", f"{name} holds {shown(twice)} twice")
            content |= held
        return content

    def _load(self, name: str, uri: str) -> Content:
        if uri not in self.files:
            try:
                self.files[uri] = load(self.stage.dispatcher.store, uri)
            except NotFound as error:
                raise Found("lost_file", f"{name}: {error}") from error
        return self.files[uri]

    def _check_vanished(self, seen: Seen, kept: set[int]) -> None:
        """Not of what another DAG feeds: its readers follow in place, range by range."""
        before = self.readable.setdefault(seen.version, set())
        gone = (before - seen.content.keys()) & kept
        if gone and not seen.dag.foreign:
            raise Found("vanished", f"{seen.name} lost {shown(gone)}")
        before.update(seen.content)


def _check_mix(seen: list[Seen]) -> None:
    """A reader sees all of one version of a DAG, or all of another."""
    revisions: dict[tuple[str, str], set[int]] = {}
    for each in seen:
        own = {job.name for job in each.dag.jobs}
        for value in each.content.values():
            for job, revision in _makers(value):
                if job in own:
                    revisions.setdefault((each.dag.name, job), set()).add(revision)
    for (dag, job), several in revisions.items():
        if len(several) > 1:
            raise Found("mixed", f"{dag}.{job} is seen in revisions {sorted(several)}")


def _makers(value: Value) -> Iterator[tuple[str, int]]:
    while len(value) == 3:
        yield value[0], value[1]
        value = value[2]


@dataclass(frozen=True)
class Oracle:
    """What the datasets should hold, by the active definitions and the world as it is."""

    shape: Shape
    definitions: dict[str, Definition]
    # By DAG: what its source gives, in the generation that is current.
    given: dict[str, Content]
    # Blocks that nobody emitted and that were said to be invalid: their readers may have made them.
    named: frozenset[int] = frozenset()

    def expected(self, dag: DagShape, job: str) -> Content:
        if job == SOURCE:
            return self.given[dag.name]
        shape = dag.job(job)
        above = self._read(dag, shape.only_reads or shape.reads)
        if shape.operator != "content":
            return above
        revision = self.definitions[dag.name].revision(job)
        return {block: [job, revision, value] for block, value in above.items()}

    def _read(self, dag: DagShape, name: str) -> Content:
        if not name.startswith("@"):
            return self.expected(dag, name)
        other, _, job = name[1:].partition("_")
        return self.expected(self.shape.dag(other), job)


def check_contents(seen: list[Seen], oracle: Oracle, allowed: set[str]) -> None:
    """Raise Found with the first difference."""
    for each in seen:
        expected = oracle.expected(each.dag, each.job)
        for rule, said in _differences(each, expected, oracle.named):
            if rule not in allowed:
                raise Found(rule, f"{each.name} {said}")


def _differences(seen: Seen, expected: Content, named: frozenset[int]) -> Iterator[tuple[str, str]]:
    held = seen.content
    stale = [block for block in held.keys() & expected.keys() if held[block] != expected[block]]
    if stale:
        first = min(stale)
        yield (
            "stale",
            f"holds {shown(stale)} as it was: {said(held[first])}, not {said(expected[first])}",
        )
    missing = expected.keys() - held.keys() - named
    if missing:
        yield "missing", f"lacks {shown(missing)}"
    more = held.keys() - expected.keys()
    if more:
        rule = "outlived" if seen.dag.foreign else "leftover"
        yield rule, f"holds {shown(more)}, which its source does not give"


def said(value: Any) -> str:
    if len(value) == 1:
        return f"fork {value[0]}"
    if len(value) == 2:
        return f"written {value[1]}"
    return f"{value[0]} r{value[1]} of {said(value[2])}"
