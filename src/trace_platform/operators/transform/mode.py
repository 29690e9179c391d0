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
from trace_platform.operators.transform.fold import Fold

Mode = Literal["map", "window", "fold", "full"]

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
        " fold: what adds up since the first block; full: all of the inputs."
    )
    window: Window | None = Field(default=None, description="With mode: window.")
    fold: Fold | None = Field(default=None, description="With mode: fold.")

    @model_validator(mode="after")
    def _of_its_mode(self) -> TransformConfig:
        needed = {
            "window": (self.window, "{ every_blocks: N }"),
            "fold": (self.fold, "{ by: [holder], values: { balance: sum(amount) } }"),
        }
        for mode, (given, example) in needed.items():
            if (self.mode == mode) != (given is not None):
                raise ValueError(
                    f"mode: {mode} needs {mode}: {example}"
                    if given is None
                    else f"{mode} belongs to mode: {mode}, and this is mode: {self.mode}"
                )
        return self

    def accepts(self) -> Accepts | None:
        return ANYTHING if self.mode == "full" else RANGES

    def emits(self) -> Updates | None:
        # A range of a fold is a part of each result, and no rows of its own: only what reads all of
        # it reads results.
        return RANGE if self.mode in ("map", "window") else PARTITION - RANGE


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
