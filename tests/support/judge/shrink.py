"""The smallest part of a failing history that still fails in the same way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from tests.support.judge.history import Action, History

_SMALL = 3
Fails = Callable[[History], Awaitable[bool]]


async def shrink(history: History, fails: Fails) -> History:
    """Leaves out actions, many at once and then one by one, then makes their numbers small."""
    smallest = history
    while True:
        before = smallest
        smallest = await _simplified(await _shortened(smallest, fails), fails)
        if smallest == before:
            return smallest


async def _shortened(history: History, fails: Fails) -> History:
    size = max(1, len(history) // 2)
    while size:
        at = 0
        while at < len(history):
            shorter = history[:at] + history[at + size :]
            if await fails(shorter):
                history = shorter
            else:
                # A few that only go together need not lie at a multiple of their number.
                at += size if size > _SMALL else 1
        size //= 2
    return history


async def _simplified(history: History, fails: Fails) -> History:
    for at in range(len(history)):
        for simpler in _simpler(history[at]):
            changed = (*history[:at], simpler, *history[at + 1 :])
            if await fails(changed):
                history = changed
                break
    return history


_PLAINER = {"trigger_odd": "trigger", "trigger_wide": "trigger", "finish_twice": "finish"}
# Their numbers choose among what there is; those of others are ranges and revisions.
_CHOOSERS = {
    "finish", "fail", "fail_for_good", "split", "expire", "die", "heed", "cancel", "retry",
    "roll_back", "purge",
}  # fmt: skip


def _simpler(action: Action) -> Iterator[Action]:
    if action.kind in _PLAINER:
        yield Action(_PLAINER[action.kind], action.args)
    if action.kind in _CHOOSERS:
        for at, number in enumerate(action.args):
            if number:
                yield Action(action.kind, (*action.args[:at], 0, *action.args[at + 1 :]))
