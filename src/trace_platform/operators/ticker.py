"""`ticker`: a source that emits the time, every so many seconds. Runs without Spark.

The cursor is the number of the tick since 1970: it needs no memory, so that an attempt that takes
over repeats nothing. A tick that nobody was there for is left out.
"""

from __future__ import annotations

import math
import time
from typing import ClassVar

from pydantic import Field

from trace_platform.operators import scope
from trace_platform.operators.accepts import ONLY_A_SOURCE, TICK, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.wire.task import DatasetEvent, TaskOutput

# A directive is noticed within this.
_NAP_S = 0.1


class Config(OperatorConfig):
    every_seconds: float = Field(ge=0.01, description="Seconds from one tick to the next.")
    limit: int | None = Field(
        default=None,
        ge=1,
        description="Ticks after which an attempt ends, to be started again as any source "
        "that ends; no limit unless given.",
    )


class Ticker:
    name: ClassVar[str] = "ticker"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("ticks",)
    accepts: ClassVar[Accepts] = ONLY_A_SOURCE
    emits: ClassVar[Updates | None] = TICK
    has_rows: ClassVar[bool] = False

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        output = scope.output(task, 0)
        last, emitted = -1, 0
        while not task.draining() and emitted != config.limit:
            task.check()
            now = self.now()
            tick = math.floor(now / config.every_seconds)
            # The clock may be set back: then its ticks were emitted before.
            if tick > last:
                task.emit([_event(output, tick)])
                last, emitted = tick, emitted + 1
            else:
                self.nap(min((last + 1) * config.every_seconds - now, _NAP_S))
        return Result()

    def now(self) -> float:
        return time.time()

    def nap(self, seconds: float) -> None:
        time.sleep(max(seconds, 0.001))


def _event(output: TaskOutput, cursor: int) -> DatasetEvent:
    return DatasetEvent(
        dataset_uuid=output.dataset_uuid, dataset_version=output.dataset_version, cursor=cursor
    )
