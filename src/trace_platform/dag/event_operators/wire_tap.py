"""`wire_tap`: passes every event on to all outputs, and with `log` writes a line for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from trace_platform.operators.accepts import ANYTHING, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig


class Config(OperatorConfig):
    log: bool = Field(
        default=False, description="Whether to write a line to the dispatcher's log for each event."
    )


class WireTap:
    name: ClassVar[str] = "wire_tap"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None
    accepts: ClassVar[Accepts] = ANYTHING
    emits: ClassVar[Updates | None] = None
    has_rows: ClassVar[bool] = False

    @staticmethod
    def problems(inputs: int, config: Any) -> Iterator[str]:
        return iter(())
