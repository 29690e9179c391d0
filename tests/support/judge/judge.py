"""One history from beginning to end: None, or what is wrong."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from tests.support.judge.act import act
from tests.support.judge.check import Watch
from tests.support.judge.finding import Found
from tests.support.judge.history import History
from tests.support.judge.play import Play
from tests.support.judge.quiet import drain, judge_end
from tests.support.judge.shapes import Shape
from tests.support.judge.stage import Stage


@dataclass(frozen=True)
class Verdict:
    found: Found | None
    lines: list[str]


async def judge(
    stage: Stage,
    shape: Shape,
    history: History,
    allowed: frozenset[str] = frozenset(),
    *,
    calm: bool = False,
) -> Verdict:
    """Rules that are `allowed` to be broken are those of the end: stale, missing, leftover. When
    it is `calm`, everything that follows from an action is done before the next."""
    play = Play(stage, shape, Watch(stage, shape))
    try:
        await play.begin()
        for action in history:
            await act(play, action)
            if calm:
                await drain(play)
        await judge_end(play, set(allowed))
    except Found as found:
        return Verdict(found, play.lines)
    except Exception as error:
        said = "".join(traceback.format_exception(error)[-6:])
        return Verdict(Found("crash", f"{type(error).__name__}: {error}\n{said}"), play.lines)
    return Verdict(None, play.lines)
