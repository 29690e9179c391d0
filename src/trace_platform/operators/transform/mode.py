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
Duration = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[smhd]$")]
# So many buckets of time, as long as they may be, are made by one task.
_TIMES = 4
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class LookAround(OperatorConfig):
    """Blocks that are read besides the task's own."""

    before: int = Field(
        default=0, ge=0, le=2**40, description="Blocks below the bucket that are read too."
    )
    after: int = Field(
        default=0, ge=0, le=2**40, description="Blocks above the bucket that are read too."
    )


class Window(LookAround):
    """Buckets of blocks; or buckets of time, each of which is made with the bucket of blocks that
    its first row lies in."""

    every_blocks: int | None = Field(
        default=None, ge=1, le=2**40, description="Blocks of a bucket; or every."
    )
    every: Duration | None = Field(
        default=None,
        description="Time of a bucket, such as 1h or 1d, by the column timestamp of the inputs.",
    )
    most_blocks: int | None = Field(
        default=None,
        ge=1,
        le=2**40,
        description="With every: as many blocks as one bucket of time may have.",
    )
    inputs: dict[InputName, LookAround] = Field(
        default={}, description="Of single inputs, by input_0, input_1, …: other blocks around."
    )

    @model_validator(mode="after")
    def _blocks_or_time(self) -> Window:
        if (self.every_blocks is None) == (self.every is None):
            raise ValueError("give either every_blocks: N, or every: 1h with most_blocks: N")
        if (self.every is None) != (self.most_blocks is None):
            raise ValueError(
                "every needs most_blocks: as many blocks as one bucket of time may have"
                if self.most_blocks is None
                else "most_blocks belongs to every, and these are buckets of blocks"
            )
        if self.every is not None and (self.before or self.after or self.inputs):
            raise ValueError("before, after and inputs belong to every_blocks, and this has every")
        return self

    @property
    def bucket_blocks(self) -> int:
        """Of time several times as large as what is read around it: a new block touches one of
        them, and rarely two."""
        if self.every_blocks is not None:
            return self.every_blocks
        assert self.most_blocks is not None, "one of them is there"
        return self.most_blocks * _TIMES

    @property
    def seconds(self) -> int | None:
        return None if self.every is None else int(self.every[:-1]) * _UNIT_S[self.every[-1]]

    def around(self, index: int) -> LookAround:
        if self.most_blocks is not None:
            # A bucket of time whose first or last row is in this one reaches no further; with one
            # block more above, in which there would be a row of one that does.
            return LookAround(before=self.most_blocks - 1, after=self.most_blocks)
        return self.inputs.get(f"input_{index}", self)

    @property
    def widest(self) -> LookAround:
        every = [self, *self.inputs.values()]
        return LookAround(
            before=max(each.before for each in every), after=max(each.after for each in every)
        )


class TransformConfig(OperatorConfig):
    mode: Mode = Field(
        description="map: row by row, for the range that woke it; window: whole buckets of blocks"
        " or of time; fold: what adds up since the first block; full: all of the inputs."
    )
    window: Window | None = Field(default=None, description="With mode: window.")
    fold: Fold | None = Field(default=None, description="With mode: fold.")

    @model_validator(mode="after")
    def _of_its_mode(self) -> TransformConfig:
        needed = {
            "window": (self.window, "{ every_blocks: N } or { every: 1h, most_blocks: N }"),
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
