"""Random DAGs of `lineage` jobs and random edits of them, and by a walk over the graph what each
edit has to rebuild. Knows nothing of how the platform finds that out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from hypothesis import strategies as st

SOURCE = "source"
# The dataset of another DAG that a job may read.
ELSEWHERE = "@q_x"
# Read by another DAG: published in every version.
MAIN = "p_main"
STYLES = 3

# What a job reads: by its label, which stays when it is renamed, and which output.
Ref = tuple[str, int]

OPERATIONAL: list[tuple[str, Any]] = [
    ("priority", "high"),
    ("priority", "low"),
    ("max_attempts", 7),
    ("scaling", {"mode": "steady"}),
    ("scaling", {"max_concurrency": 2}),
    ("backpressure", {"max_queue_depth": 900}),
    ("backpressure", {"max_queue_age": "1h", "mode": "coalesce"}),
    ("timeout_seconds", 99),
    ("heartbeat_timeout_seconds", 44),
    ("idle_timeout", "5m"),
]


@dataclass(frozen=True)
class Node:
    label: str
    name: str
    inputs: tuple[Ref, ...]
    revision: int = 1
    outputs: tuple[str, ...] = ("rows",)
    strategy: str | None = None
    description: str | None = None
    fields: tuple[tuple[str, Any], ...] = ()

    @property
    def own(self) -> tuple[object, ...]:
        """What of it decides what it makes."""
        return self.label, self.revision, len(self.outputs), self.strategy or "PerUpdate"


@dataclass(frozen=True)
class Named:
    """A published name."""

    of: Ref
    said: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Doc:
    """A version of the DAG. Jobs come after those that they read."""

    nodes: tuple[Node, ...]
    publish: tuple[tuple[str, Named], ...]
    resets: bool = False
    source_config: int = 0
    description: str | None = None
    # How it is written down.
    style: int = 0

    @property
    def by_label(self) -> dict[str, Node]:
        return {node.label: node for node in self.nodes}

    @property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def place(self, ref: Ref) -> Ref:
        """With the name that the job has in this version instead of its label."""
        node = self.by_label.get(ref[0])
        return (node.name, ref[1]) if node else ref

    def reads(self, node: Node) -> list[Ref]:
        return [self.place(ref) for ref in node.inputs]

    @property
    def source_key(self) -> int | None:
        """Which stock of ranges the source has."""
        return self.source_config if self.resets else None

    @property
    def content(self) -> Doc:
        return replace(self, style=0)


@dataclass(frozen=True)
class Step:
    """An edit, and the ranges that arrive while it is built."""

    edit: str
    doc: Doc
    late: int = 0
    late_elsewhere: int = 0


@dataclass(frozen=True)
class Scenario:
    first: Doc
    ranges: int
    ranges_elsewhere: int
    steps: tuple[Step, ...] = field(default=())


def rebuilt(before: Doc, after: Doc) -> set[str]:
    """The jobs from the edit onward: what changed itself, and everything that leads on from it.
    What has another name is another job."""
    found = {SOURCE} if before.source_key != after.source_key else set()
    for node in after.nodes:
        was = before.by_name.get(node.name)
        if (
            was is None
            or was.own != node.own
            or before.reads(was) != after.reads(node)
            or any(name in found for name, _ in after.reads(node))
        ):
            found.add(node.name)
    return found


def edited_itself(before: Doc, after: Doc, node: Node) -> bool:
    """Whether what decides about this job is written differently, not only that of one above."""
    was = before.by_name[node.name]
    return was.own != node.own or _edges(before, was) != _edges(after, node)


def _edges(doc: Doc, node: Node) -> list[dict[str, Any]]:
    return [_edge(doc, ref) for ref in node.inputs]


def _edge(doc: Doc, ref: Ref) -> dict[str, Any]:
    label, output = ref
    if label.startswith("@"):
        return {"dataset": label[1:]}
    if label == SOURCE:
        return {"job": SOURCE}
    node = doc.by_label[label]
    return {"job": node.name, "output": node.outputs[output]}


def text(doc: Doc, dag: str = "p") -> str:
    jobs = [_source(doc), *(_job(doc, node) for node in doc.nodes)]
    publish = {name: {"from": _edge(doc, each.of), **dict(each.said)} for name, each in doc.publish}
    whole: dict[str, Any] = {"name": dag, "jobs": jobs, "publish": publish}
    if doc.description is not None:
        whole["description"] = doc.description
    # Through JSON: the same value in two places would be an alias, which no file may have.
    whole = json.loads(json.dumps(whole))
    if doc.style == 1:
        return json.dumps(whole, indent=3)
    if doc.style == 2:
        return "# again\n" + yaml.safe_dump(whole, sort_keys=True, default_flow_style=True)
    return yaml.safe_dump(whole, sort_keys=False)


def _source(doc: Doc) -> dict[str, Any]:
    return {
        "name": SOURCE,
        "activation": "source",
        "source": {"kind": "manual"},
        "outputs": ["ranges"],
        "config": {"n": doc.source_config},
        **({"bootstrap": {"reset_outputs": True}} if doc.resets else {}),
    }


def _job(doc: Doc, node: Node) -> dict[str, Any]:
    published = {each.of: name for name, each in doc.publish}
    inputs = _edges(doc, node)
    if doc.style == 2:
        # Its own datasets by the names they are published under.
        inputs = [
            {"dataset": published[ref]} if ref in published else edge
            for ref, edge in zip(node.inputs, inputs, strict=True)
        ]
    said = {"execution_strategy": node.strategy, "description": node.description}
    return {
        "name": node.name,
        "activation": "reactive",
        "runtime": "ecs_platform",
        "operator": "lineage",
        "inputs": [{"from": each} for each in inputs],
        "outputs": list(node.outputs),
        "config": {"job": node.label, "revision": node.revision},
        **{key: value for key, value in said.items() if value is not None},
        **dict(node.fields),
    }


def _with(doc: Doc, node: Node, **changes: Any) -> Doc:
    nodes = tuple(replace(n, **changes) if n.label == node.label else n for n in doc.nodes)
    return replace(doc, nodes=nodes)


def _outputs(doc: Doc) -> list[Ref]:
    return [(node.label, index) for node in doc.nodes for index in range(len(node.outputs))]


def _free(doc: Doc) -> list[Ref]:
    """Outputs without a name."""
    taken = {each.of for _, each in doc.publish}
    return [ref for ref in _outputs(doc) if ref not in taken]


class _Author:
    """Edits one document after the other."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw
        self._labels = 0
        self.history: list[Doc] = []

    def one_of(self, values: Any) -> Any:
        return self._draw(st.sampled_from(list(values)))

    def first(self) -> Doc:
        doc = Doc((), ())
        for _ in range(self._draw(st.integers(1, 8))):
            doc = self._grown(doc)
        names = [(MAIN, Named(self.one_of(_outputs(doc))))]
        doc = replace(doc, publish=tuple(names))
        for ref in _free(doc):
            if self._draw(st.booleans()):
                doc = replace(doc, publish=(*doc.publish, (f"p_{ref[0]}_{ref[1]}", Named(ref))))
        return doc

    def _grown(self, doc: Doc) -> Doc:
        self._labels += 1
        label = f"j{self._labels}"
        outputs = self.one_of([("rows",), ("rows",), ("rows", "more")])
        node = Node(label, label, self._inputs(doc.nodes), outputs=outputs)
        return replace(doc, nodes=(*doc.nodes, node))

    def _inputs(self, above: tuple[Node, ...]) -> tuple[Ref, ...]:
        known = [(n.label, i) for n in above for i in range(len(n.outputs))]
        choices = [(SOURCE, 0), *known[-6:], (ELSEWHERE, 0)]
        chosen = [self.one_of(choices)]
        if self._draw(st.booleans()):
            chosen.append(self.one_of(choices))
        return tuple(dict.fromkeys(chosen))

    def edit(self, doc: Doc) -> tuple[str, Doc]:
        kind = self.one_of(
            [
                "revision", "revision", "operational", "described", "add", "remove", "rewire",
                "rename", "publish", "unpublish", "republish", "move", "redescribe", "back",
                "strategy", "reset", "style", "outputs",
            ]
        )  # fmt: skip
        changed: Doc | None = getattr(self, f"_{kind}")(doc)
        return (kind, changed) if changed is not None else ("style", self._style(doc))

    def _revision(self, doc: Doc) -> Doc:
        node = self.one_of(doc.nodes)
        return _with(doc, node, revision=self.one_of({1, 2, 3} - {node.revision}))

    def _operational(self, doc: Doc) -> Doc:
        node, (key, value) = self.one_of(doc.nodes), self.one_of(OPERATIONAL)
        now = dict(node.fields)
        if now.get(key) == value:
            del now[key]
        else:
            now[key] = value
        return _with(doc, node, fields=tuple(now.items()))

    def _described(self, doc: Doc) -> Doc:
        said = self.one_of(["one thing", "another"])
        if self._draw(st.booleans()):
            return replace(doc, description=said)
        return _with(doc, self.one_of(doc.nodes), description=said)

    def _add(self, doc: Doc) -> Doc:
        return self._grown(doc)

    def _remove(self, doc: Doc) -> Doc | None:
        node = self.one_of(doc.nodes)
        if len(doc.nodes) == 1:
            return None
        left = [n for n in doc.nodes if n.label != node.label]
        nodes = []
        for each in left:
            kept = tuple(ref for ref in each.inputs if ref[0] != node.label)
            nodes.append(replace(each, inputs=kept or node.inputs))
        names = [(name, each) for name, each in doc.publish if each.of[0] != node.label]
        doc = replace(doc, nodes=tuple(nodes), publish=tuple(names))
        return doc if MAIN in dict(names) else self._with_main(doc)

    def _with_main(self, doc: Doc) -> Doc:
        named = dict(doc.publish)
        taken = self.one_of(_outputs(doc))
        named = {name: each for name, each in named.items() if each.of != taken}
        return replace(doc, publish=(*named.items(), (MAIN, Named(taken))))

    def _rewire(self, doc: Doc) -> Doc:
        index = self._draw(st.integers(0, len(doc.nodes) - 1))
        return _with(doc, doc.nodes[index], inputs=self._inputs(doc.nodes[:index]))

    def _rename(self, doc: Doc) -> Doc:
        used = {node.name for old in self.history for node in old.nodes}
        names = sorted({*used, *(f"n{n}" for n in range(len(used), len(used) + 2))})
        free = [name for name in names if name not in doc.by_name]
        return _with(doc, self.one_of(doc.nodes), name=self.one_of(free))

    def _publish(self, doc: Doc) -> Doc | None:
        free, n = _free(doc), len(self.history)
        if not free:
            return None
        return replace(doc, publish=(*doc.publish, (f"p_new{n}", Named(self.one_of(free)))))

    def _unpublish(self, doc: Doc) -> Doc | None:
        mine = [name for name, _ in doc.publish if name != MAIN]
        if not mine:
            return None
        gone = self.one_of(mine)
        return replace(doc, publish=tuple(item for item in doc.publish if item[0] != gone))

    def _republish(self, doc: Doc) -> Doc | None:
        mine = [name for name, _ in doc.publish if name != MAIN]
        if not mine:
            return None
        old, new = self.one_of(mine), f"p_other{len(self.history)}"
        names = tuple((new if name == old else name, each) for name, each in doc.publish)
        return replace(doc, publish=names)

    def _move(self, doc: Doc) -> Doc | None:
        """A name goes to another output; to one that has a name, they change places."""
        _, now = self.one_of(doc.publish)
        others = [ref for ref in _outputs(doc) if ref != now.of]
        if not others:
            return None
        to = self.one_of(others)
        places = {now.of: to, to: now.of}
        names = tuple(
            (n, replace(each, of=places.get(each.of, each.of))) for n, each in doc.publish
        )
        return replace(doc, publish=names)

    def _redescribe(self, doc: Doc) -> Doc:
        name, _ = self.one_of(doc.publish)
        said = self.one_of(
            [
                (("description", "rows of it"),),
                (("max_age", "15m"), ("schema", {"n": "int64"})),
                (("schema", {"n": "int64", "who": "string"}), ("pii", ["who"])),
            ]
        )
        names = tuple((n, replace(e, said=said) if n == name else e) for n, e in doc.publish)
        return replace(doc, publish=names)

    def _back(self, doc: Doc) -> Doc | None:
        return self.one_of(self.history[:-1]) if len(self.history) > 1 else None

    def _strategy(self, doc: Doc) -> Doc:
        node = self.one_of(doc.nodes)
        others = {None, "PerUpdate", "PerPartition"} - {node.strategy}
        return _with(doc, node, strategy=self.one_of(sorted(others, key=str)))

    def _reset(self, doc: Doc) -> Doc:
        if self._draw(st.booleans()):
            return replace(doc, resets=not doc.resets)
        return replace(doc, source_config=doc.source_config + 1)

    def _outputs(self, doc: Doc) -> Doc | None:
        """The names of two outputs change places: what read the one by name reads the other,
        though nobody touched it."""
        mine = [node for node in doc.nodes if len(node.outputs) > 1]
        if not mine:
            return None
        node = self.one_of(mine)

        def other(ref: Ref) -> Ref:
            return (ref[0], 1 - ref[1]) if ref[0] == node.label else ref

        nodes = [replace(n, inputs=tuple(map(other, n.inputs))) for n in doc.nodes]
        names = tuple((name, replace(each, of=other(each.of))) for name, each in doc.publish)
        doc = replace(doc, nodes=tuple(nodes), publish=names)
        return _with(doc, node, outputs=node.outputs[::-1])

    def _style(self, doc: Doc) -> Doc:
        return replace(doc, style=(doc.style + 1) % STYLES)


@st.composite
def scenarios(draw: Callable[[st.SearchStrategy[Any]], Any], max_steps: int = 5) -> Scenario:
    author = _Author(draw)
    doc = author.first()
    scenario = Scenario(doc, draw(st.integers(0, 3)), draw(st.integers(0, 2)))
    author.history.append(doc)
    for _ in range(draw(st.integers(1, max_steps))):
        kind, doc = author.edit(doc)
        author.history.append(doc)
        step = Step(kind, doc, draw(st.integers(0, 1)), draw(st.integers(0, 1)))
        scenario = replace(scenario, steps=(*scenario.steps, step))
    return scenario
