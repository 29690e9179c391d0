"""What the judge found wrong."""

from __future__ import annotations


class Found(Exception):
    """A rule that was broken, and how.

    stuck        something does not come to an end, however often it is tried
    open         an invalidation stays open although nothing is left to do
    stale        a dataset holds what is not so any more
    missing      it lacks blocks
    leftover     it holds blocks that nobody emitted
    outlived     the same of a dataset that another DAG feeds, whose source began anew
    duplicate    it holds a block twice
    mixed        a job of one DAG is seen in two revisions at once
    vanished     a block that could be read cannot be any more
    woken        a source run that a person canceled runs again
    lost_file    a committed file is not there
    crash        a verb broke
    """

    def __init__(self, rule: str, said: str) -> None:
        super().__init__(f"{rule}: {said}")
        self.rule = rule
        self.said = said
