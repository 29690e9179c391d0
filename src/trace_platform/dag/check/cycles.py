"""Jobs that wait for each other in a circle."""

from __future__ import annotations

from collections.abc import Iterator

from trace_platform.dag.check.names import Names, Problem

MAX_NAMED = 12
# Which jobs read a job's outputs, and by which input.
Readers = dict[str, dict[str, int]]


def cycle_problems(names: Names) -> Iterator[Problem]:
    """One problem for each knot of jobs, at the input of its first job that belongs to it."""
    readers = _readers(names)
    order = {job.name: index for index, job in reversed(list(enumerate(names.dag.jobs)))}
    for knot in _knots(readers):
        first = min(knot, key=order.__getitem__)
        trail = _around(first, knot, readers)
        number = readers[trail[-2]][first]
        yield ("jobs", order[first], "inputs", number, "from"), _said(trail)


def _said(trail: list[str]) -> str:
    if len(trail) == 2:
        return f"job '{trail[0]}' reads its own output: read from another job"
    more = len(trail) - MAX_NAMED
    shown = trail if more <= 0 else [*trail[: MAX_NAMED - 2], f"({more} more)", *trail[-2:]]
    return f"the jobs form a cycle: {' -> '.join(shown)}; remove one of these inputs"


def _readers(names: Names) -> Readers:
    readers: Readers = {name: {} for name in names.jobs}
    for job in names.jobs.values():
        for number, edge in enumerate(job.inputs):
            for ref in names.producers(edge.source):
                if ref.job in readers:
                    readers[ref.job].setdefault(job.name, number)
    return readers


def _knots(readers: Readers) -> Iterator[set[str]]:
    """Jobs that reach each other: Tarjan's strongly connected components, without recursion."""
    found: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: dict[str, None] = {}
    for start in readers:
        work = [(start, iter(readers[start]))] if start not in found else []
        if work:
            found[start] = low[start] = len(found)
            open_[start] = None
        while work:
            name, following = work[-1]
            step = next((each for each in following if each not in found or each in open_), None)
            if step is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == found[name]:
                    knot = _closed(open_, name)
                    if len(knot) > 1 or name in readers[name]:
                        yield knot
            elif step in found:
                low[name] = min(low[name], found[step])
            else:
                found[step] = low[step] = len(found)
                open_[step] = None
                work.append((step, iter(readers[step])))


def _closed(open_: dict[str, None], name: str) -> set[str]:
    knot = set()
    while name not in knot:
        last, _ = open_.popitem()
        knot.add(last)
    return knot


def _around(first: str, knot: set[str], readers: Readers) -> list[str]:
    """The shortest way from a job back to itself."""
    came: dict[str, str] = {}
    edge = [first]
    while first not in came:
        step = [(reader, name) for name in edge for reader in readers[name] if reader in knot]
        edge = []
        for reader, name in step:
            if reader not in came:
                came[reader] = name
                edge.append(reader)
    trail = [first, came[first]]
    while trail[-1] != first:
        trail.append(came[trail[-1]])
    return trail[::-1]
