"""An operator that does what the test in the same process tells it to."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from trace_platform.operators.contract import OperatorConfig, Result, TaskContext

_behaviour: list[Callable[[TaskContext], Result | None]] = []


def behave(how: Callable[[TaskContext], Result | None]) -> None:
    _behaviour[:] = [how]


class ProbeConfig(OperatorConfig):
    pass


class Probe:
    name: ClassVar[str] = "probe"
    Config: ClassVar[type[OperatorConfig]] = ProbeConfig
    output_names: ClassVar[tuple[str, ...] | None] = None

    def run(self, task: TaskContext) -> Result:
        return _behaviour[0](task) or Result()
