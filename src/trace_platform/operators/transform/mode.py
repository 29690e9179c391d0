"""How a transform moves forward, and which rows a task of it reads.

What a task reads is settled when it is claimed: the Dispatcher reads the same settings
(`dispatcher/fit_transforms.py`), so this file imports nothing that is heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError, model_validator

from trace_platform.operators.accepts import ANYTHING, PARTITION, RANGE, RANGES, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig

Mode = Literal["map", "window", "full"]

# Of `full`: the one partition that holds everything.
WHOLE = "all"
# The operators that move forward so.
TRANSFORMS = frozenset({"sql_transform", "python_transform"})

InputName = Annotated[str, StringConstraints(pattern=r"^input_[0-9]{1,3}$")]


class LookAround(OperatorConfig):
    """Blocks that are read besides the task's own."""

    before: int = Field(
        default=0, ge=0, le=2**40, description="Blocks below the bucket that are read too."
    )
    after: int = Field(
        default=0, ge=0, le=2**40, description="Blocks above the bucket that are read too."
    )


class Window(LookAround):
    every_blocks: int = Field(ge=1, le=2**40, description="Blocks of a bucket.")
    inputs: dict[InputName, LookAround] = Field(
        default={}, description="Of single inputs, by input_0, input_1, …: other blocks around."
    )

    def around(self, index: int) -> LookAround:
        return self.inputs.get(f"input_{index}", self)

    @property
    def widest(self) -> LookAround:
        every = [self, *self.inputs.values()]
        return LookAround(
            before=max(each.before for each in every), after=max(each.after for each in every)
        )


class TransformConfig(OperatorConfig):
    mode: Mode = Field(
        description="map: row by row, for the range that woke it; window: whole buckets of blocks;"
        " full: all of the inputs."
    )
    window: Window | None = Field(default=None, description="With mode: window.")

    @model_validator(mode="after")
    def _window_of_windows(self) -> TransformConfig:
        if (self.mode == "window") != (self.window is not None):
            raise ValueError(
                "mode: window needs window: { every_blocks: N }"
                if self.window is None
                else f"window belongs to mode: window, and this is mode: {self.mode}"
            )
        return self

    def accepts(self) -> Accepts | None:
        return ANYTHING if self.mode == "full" else RANGES

    def emits(self) -> Updates | None:
        return PARTITION - RANGE if self.mode == "full" else RANGE


class _Moves(OperatorConfig):
    """The part of a config that says how it moves forward."""

    model_config = OperatorConfig.model_config | {"extra": "ignore"}

    mode: Mode
    window: Window | None = None


def moves(operator: str, config: Mapping[str, Any]) -> _Moves | None:
    """None for what is no transform. A config that does not say it is found out by its task."""
    if operator not in TRANSFORMS:
        return None
    try:
        return _Moves.model_validate(config)
    except ValidationError:
        return None
