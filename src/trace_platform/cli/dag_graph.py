"""A DAG as a drawing: for a terminal, for Mermaid, or as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from trace_platform.dag.model.dag import CronSource, Dag, DatasetRef, Job, JobOutputRef
from trace_platform.domain.own_code import short

_PLAIN = str.maketrans("●│─├┤┼┴╰╯→←·", "*|-++++`'><-")


@dataclass(frozen=True, slots=True)
class Graph:
    """Who reads whom, and under which names outputs are published."""

    dag: Dag
    # In an order in which a job comes after all that it reads.
    jobs: list[Job]
    producers: dict[str, list[str]]
    published: dict[tuple[str, int], list[str]]

    @classmethod
    def of(cls, dag: Dag) -> Graph:
        by_name = {job.name: job for job in dag.jobs}
        published: dict[tuple[str, int], list[str]] = {}
        for name, each in dag.publish.items():
            for ref in each.sources:
                index = by_name[ref.job].output_index(ref.output) or 0
                published.setdefault((ref.job, index), []).append(name)
        producers = {job.name: list(dict.fromkeys(_producers(dag, job))) for job in dag.jobs}
        return cls(dag, _ordered(dag.jobs, producers), producers, published)

    def layers(self) -> dict[str, int]:
        """How many jobs lie before each, on the longest way."""
        found: dict[str, int] = {}
        for job in self.jobs:
            found[job.name] = max((found[name] + 1 for name in self.producers[job.name]), default=0)
        return found


def _producers(dag: Dag, job: Job) -> Iterator[str]:
    for edge in job.inputs:
        if isinstance(edge.source, JobOutputRef):
            yield edge.source.job
        elif edge.source.dataset in dag.publish:
            yield from (ref.job for ref in dag.publish[edge.source.dataset].sources)


def _ordered(jobs: list[Job], producers: dict[str, list[str]]) -> list[Job]:
    """Each job soon after the last that it reads: lines stay short."""
    by_name = {job.name: job for job in jobs}
    readers: dict[str, list[str]] = {job.name: [] for job in jobs}
    for job in jobs:
        for name in producers[job.name]:
            readers[name].append(job.name)
    waits = {name: len(found) for name, found in producers.items()}
    ready = [job.name for job in reversed(jobs) if not waits[job.name]]
    order: list[Job] = []
    while ready:
        name = ready.pop()
        order.append(by_name[name])
        for reader in reversed(readers[name]):
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    return order


def terminal(graph: Graph, *, unicode: bool = True) -> Iterator[Text]:
    """A line for each job, joined by rails to those that it reads; its outputs below it."""
    rows = list(_Rails(graph).rows())
    width = max(len(rails) for rails, _, _ in rows)
    names = max(len(job.name) for job in graph.jobs)
    for rails, left, right in rows:
        line = Text(rails.ljust(width + 2), style="cyan")
        line.append(left.ljust(names + 2), style="bold")
        line.append_text(right)
        yield line if unicode else Text(line.plain.translate(_PLAIN).rstrip())


class _Rails:
    """Lanes from producers down to their readers. A lane is taken over by the last reader."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._lanes: list[str | None] = []
        self._unread = {job.name: 0 for job in graph.jobs}
        for producers in graph.producers.values():
            for name in producers:
                self._unread[name] += 1

    def rows(self) -> Iterator[tuple[str, str, Text]]:
        for job in self._graph.jobs:
            about = Text(_about(job), style="dim")
            if quiet := _unpublished(job, self._graph):
                about.append(f" · {', '.join(quiet)}", style="not dim")
            yield self._join(job.name), job.name, about
            for text in _details(job, self._graph):
                yield self._plain(), "", text

    def _join(self, name: str) -> str:
        inputs = [self._lanes.index(producer) for producer in self._graph.producers[name]]
        for producer in self._graph.producers[name]:
            self._unread[producer] -= 1
        ended = {lane for lane in inputs if not self._unread[self._lanes[lane] or ""]}
        own = min(ended, default=None)
        if own is None:
            own = self._free_lane()
        row = _row(self._lanes, own, set(inputs), ended)
        for lane in ended:
            self._lanes[lane] = None
        self._lanes[own] = name if self._unread[name] else None
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()
        return row

    def _free_lane(self) -> int:
        if None not in self._lanes:
            self._lanes.append(None)
        return self._lanes.index(None)

    def _plain(self) -> str:
        return " ".join("│" if lane else " " for lane in self._lanes)


def _row(lanes: list[str | None], own: int, inputs: set[int], ended: set[int]) -> str:
    first, last = min({own, *inputs}), max({own, *inputs})
    row = ""
    for lane, name in enumerate(lanes):
        inside = first < lane < last
        if lane == own:
            mark = "●"
        elif lane in inputs and inside:
            mark = "┴" if lane in ended else "┼"
        elif lane in inputs:
            left = lane < own
            mark = ("╰" if left else "╯") if lane in ended else ("├" if left else "┤")
        else:
            mark = "│" if name else "─" if inside else " "
        row += mark + ("─" if first <= lane < last else " ")
    return row.rstrip()


def _about(job: Job) -> str:
    if isinstance(job.source, CronSource):
        return f"cron {job.source.schedule} {job.source.timezone}"
    if job.operator is None:
        return f"{job.source.kind} source" if job.source else ""
    kind = f", {job.source.kind} source" if job.source else ""
    return f"{short(job.operator)}{' on ' + job.runtime if job.runtime else ''}{kind}"


def _details(job: Job, graph: Graph) -> Iterator[Text]:
    read = _read(job, graph)
    if read:
        yield Text(f"← {', '.join(read)}", style="dim")
    width = max(len(output) for output in job.outputs)
    for index, output in enumerate(job.outputs):
        if names := graph.published.get((job.name, index)):
            yield Text(f"{output.ljust(width)} → ").append(", ".join(names), style="green")


def _unpublished(job: Job, graph: Graph) -> list[str]:
    outputs = enumerate(job.outputs)
    found = [output for index, output in outputs if (job.name, index) not in graph.published]
    return [] if found == ["output_0"] else found


def _read(job: Job, graph: Graph) -> list[str]:
    """What the rails do not tell: which of several outputs, and datasets of other DAGs."""
    outputs = {each.name: each.outputs for each in graph.dag.jobs}
    found = []
    for edge in job.inputs:
        if isinstance(edge.source, DatasetRef):
            known = edge.source.dataset in graph.dag.publish
            found.append(edge.source.dataset if known else f"{edge.source.dataset} (another DAG)")
        else:
            names = outputs[edge.source.job]
            index = _index(edge.source, graph)
            if len(names) > 1:
                found.append(f"{edge.source.job}.{names[index]}")
            elif len(job.inputs) > 1:
                found.append(edge.source.job)
    return found


def _index(ref: JobOutputRef, graph: Graph) -> int:
    job = next(job for job in graph.jobs if job.name == ref.job)
    return job.output_index(ref.output) or 0


def mermaid(graph: Graph) -> Iterator[str]:
    """A flowchart that GitHub and others draw. Names are prefixed: `end` is a word of Mermaid."""
    yield "flowchart LR"
    for job in graph.jobs:
        left, right = ("([", "])") if job.activation == "source" else ("[", "]")
        yield f'  job_{job.name}{left}"{job.name}<br/>{_about(job).replace("*", "#42;")}"{right}'
    for name in graph.dag.publish:
        yield f'  dataset_{name}[("{name}")]'
    for name in _elsewhere(graph):
        yield f'  elsewhere_{name}[("{name}<br/>another DAG")]'
    for start, label, end in _arrows(graph):
        yield f"  {start} -->|{label}| {end}"


def _elsewhere(graph: Graph) -> list[str]:
    read = [edge.source for job in graph.jobs for edge in job.inputs]
    datasets = [ref.dataset for ref in read if isinstance(ref, DatasetRef)]
    return [name for name in dict.fromkeys(datasets) if name not in graph.dag.publish]


def _arrows(graph: Graph) -> Iterator[tuple[str, str, str]]:
    outputs = {job.name: job.outputs for job in graph.jobs}
    for job in graph.jobs:
        for edge in job.inputs:
            if isinstance(edge.source, JobOutputRef):
                label = outputs[edge.source.job][_index(edge.source, graph)]
                yield f"job_{edge.source.job}", label, f"job_{job.name}"
            else:
                own = edge.source.dataset in graph.dag.publish
                kind = "dataset" if own else "elsewhere"
                yield f"{kind}_{edge.source.dataset}", "rows", f"job_{job.name}"
    for (maker, index), names in graph.published.items():
        for name in names:
            yield f"job_{maker}", outputs[maker][index], f"dataset_{name}"


def as_data(graph: Graph) -> dict[str, Any]:
    layers = graph.layers()
    return {
        "dag": graph.dag.name,
        "jobs": [
            {
                "name": job.name,
                "activation": job.activation,
                "source": job.source.kind if job.source else None,
                "runtime": job.runtime,
                "operator": job.operator,
                "layer": layers[job.name],
                "inputs": [edge.source.model_dump() for edge in job.inputs],
                "outputs": [
                    {"name": name, "published_as": graph.published.get((job.name, index), [])}
                    for index, name in enumerate(job.outputs)
                ],
            }
            for job in graph.jobs
        ],
        "reads_from_other_dags": _elsewhere(graph),
    }
