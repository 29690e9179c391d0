"""Which worker of a parallel run takes which file.

Four workers on two cores hide that tests wait. Not each of them has to start instances and a JVM:
each has a lane, and takes the files of that first. Without any left it takes what is next."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_LANES = ("stack", "spark", "spark", "plain")


class Lanes(LoadFileScheduling):
    def _assign_work_unit(self, node: WorkerController) -> None:
        lane = _LANES[int(node.gateway.id.removeprefix("gw")) % len(_LANES)]
        self.workqueue.move_to_end(next_of(self.workqueue, lane, self.config.rootpath), last=False)
        super()._assign_work_unit(node)


def next_of(files: Iterable[str], lane: str, root: Path) -> str:
    """The first file of that lane; without one, the first of all."""
    waiting = list(files)
    return next((each for each in waiting if lane_of(root / each) == lane), waiting[0])


@cache
def lane_of(file: Path) -> str:
    text = file.read_text()
    if "mark.stack" in text:
        return "stack"
    return "spark" if "mark.spark" in text or "spark_runtime" in text else "plain"
