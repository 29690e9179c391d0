"""Lineage as a tree for a terminal, or as a Mermaid diagram."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from trace_platform.wire.dataset import Lineage


def as_tree(found: Lineage) -> Iterator[str]:
    """What it comes from, then what comes of it. A part that was drawn before is not again."""
    above: dict[str, list[str]] = defaultdict(list)
    below: dict[str, list[str]] = defaultdict(list)
    for edge in found.edges:
        above[edge.target].append(edge.source)
        below[edge.source].append(edge.target)
    shown = {node.id: _label(node.id, node.kind, node.active) for node in found.nodes}
    yield shown[found.subject]
    for title, neighbours in (("comes from", above), ("goes to", below)):
        if neighbours.get(found.subject):
            yield title
            yield from _branches(found.subject, neighbours, shown, "", {found.subject})
    if not found.edges:
        yield "nothing is known of what it comes from or goes to"
    if found.truncated:
        yield "there is more: --depth"


def _branches(
    node: str,
    neighbours: dict[str, list[str]],
    shown: dict[str, str],
    indent: str,
    seen: set[str],
) -> Iterator[str]:
    following = neighbours.get(node, [])
    for n, each in enumerate(following):
        last = n == len(following) - 1
        again = each in seen and bool(neighbours.get(each))
        yield f"{indent}{'└─ ' if last else '├─ '}{shown[each]}{' …' if again else ''}"
        if each not in seen:
            seen.add(each)
            yield from _branches(each, neighbours, shown, indent + ("   " if last else "│  "), seen)


def _label(name: str, kind: str, active: bool) -> str:
    said = f"({name})" if kind == "job" else name
    return said if active else f"{said} [not deployed]"


def as_mermaid(found: Lineage) -> Iterator[str]:
    """Datasets and columns are boxes, jobs are rounded."""
    ids = {node.id: f"n{n}" for n, node in enumerate(found.nodes)}
    yield "flowchart LR"
    for node in found.nodes:
        left, right = ("([", "])") if node.kind == "job" else ("[", "]")
        label = node.id.replace('"', "#quot;")
        yield f'  {ids[node.id]}{left}"{label}"{right}'
    for edge in found.edges:
        yield f"  {ids[edge.source]} --> {ids[edge.target]}"
    yield f"  style {ids[found.subject]} stroke-width:3px"
