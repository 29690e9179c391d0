"""Every reachable interleaving of leases, reaper, crashes and doubled messages, breadth first."""

from __future__ import annotations

from collections import deque

import pytest

from tests.support.fence_model import Owns, Task, World, owns, steps

ENDED = ("Completed", "Canceled")


def violation(before: World, after: World) -> str | None:
    if len(after.commits) > 1:
        return "two completions were accepted"
    if len(after.commits) > len(before.commits) and after.commits[-1] != before.task.attempt:
        return "an attempt committed that was not the newest"
    if before.task.status in ENDED and after.task.status != before.task.status:
        return "a task that had ended came back"
    return None


def explore(rule: Owns) -> tuple[int, list[str]]:
    """How many worlds were seen, and the first way to break a rule, if there is one."""
    start = World()
    came_from: dict[World, tuple[World, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        world = waiting.popleft()
        for name, after in steps(world, rule):
            broken = violation(world, after)
            if broken:
                return len(came_from), [*_path(came_from, world), name, broken]
            if after not in came_from:
                came_from[after] = (world, name)
                waiting.append(after)
    return len(came_from), []


def _path(came_from: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    names = []
    while (step := came_from[world]) is not None:
        world, name = step
        names.append(name)
    return names[::-1]


def test_no_interleaving_breaks_a_rule() -> None:
    seen, broken = explore(owns)
    assert broken == []
    assert seen > 1_000, "the model hardly moved"


@pytest.mark.parametrize(
    ("name", "weak"),
    [
        ("any attempt", lambda task, attempt: task.status == "Running" or task.reaped),
        ("whatever the status", lambda task, attempt: task.attempt == attempt),
        ("nothing", lambda task, attempt: True),
    ],
)
def test_the_model_notices_a_weaker_fence(name: str, weak: Owns) -> None:
    _, broken = explore(weak)
    assert broken, name


def test_some_run_ends_in_every_way() -> None:
    """The model is not right merely because nothing can happen in it."""
    seen = {World()}
    waiting = deque(seen)
    ends: set[tuple[str, bool]] = set()
    while waiting:
        world = waiting.popleft()
        ends.add((world.task.status, bool(world.commits)))
        for _, after in steps(world):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    assert {("Completed", True), ("Failed", False), ("Canceled", False)} <= ends
    assert ("Completed", False) not in ends
    assert Task().status == "Queued"
