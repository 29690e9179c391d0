"""What a heartbeat says of a source that does not get on."""

from __future__ import annotations

from trace_platform.wire.task import Progress
from trace_platform.worker.standing import Standing


class Clock:
    at = 100.0

    def __call__(self) -> float:
        return self.at


def test_a_source_that_never_heard_of_the_outside_still_says_why() -> None:
    clock = Clock()
    standing = Standing(clock)
    assert standing.told(None) is None
    standing.is_stuck("the node is away")
    clock.at += 40
    standing.is_stuck("the node is still away")
    told = standing.told(None)
    assert told is not None
    assert (told.heard_s, told.stuck, told.stuck_s) == (None, "the node is still away", 40)


def test_what_was_heard_ages_and_trouble_that_is_over_is_forgotten() -> None:
    clock = Clock()
    standing = Standing(clock)
    standing.heard()
    standing.is_stuck("refused")
    clock.at += 7
    standing.is_stuck(None)
    told = standing.told(Progress(done=3, total=9))
    assert told == Progress(done=3, total=9, heard_s=7)
