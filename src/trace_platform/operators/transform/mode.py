"""How a transform moves forward, and which rows a task of it reads.

What a task reads is settled when it is claimed: the Dispatcher reads the same settings
(`dispatcher/fit_transforms.py`), so this file imports nothing that is heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints, ValidationError, model_validator

from trace_platform.operators.accepts import ANYTHING, PARTITION, RANGE, RANGES, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig
from trace_platform.operators.transform.column_name import ColumnName
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


# Blocks, or a time.
Distance = Annotated[int, Field(ge=0, le=2**40)] | Duration


class Around(NamedTuple):
    """Blocks, or buckets of time, that are read besides a task's own."""

    before: int
    after: int


class LookAround(OperatorConfig):
    """What is read besides the task's own buckets."""

    before: Distance = Field(
        default=0,
        description="Blocks below the bucket that are read too; with every the time before it,"
        " such as 2h.",
    )
    after: Distance = Field(
        default=0,
        description="Blocks above the bucket that are read too; with every the time after it.",
    )

    @property
    def is_wide(self) -> bool:
        return bool(self.before or self.after)


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
        default={},
        description="Of single inputs, by input_0, input_1, …: another before and after.",
    )
    time: ColumnName | None = Field(
        default=None,
        description="With every and before or after: the column of the result by which its rows"
        " are in buckets. Those that are in others are left out.",
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
        for each in (self, *self.inputs.values()):
            for said in (each.before, each.after):
                if said and isinstance(said, str) != (self.every is not None):
                    raise ValueError(_other_distance(said, self.every))
        if (self.time is not None) != (self.every is not None and self._is_wide_anywhere):
            raise ValueError(
                "time belongs to every with before or after"
                if self.time is not None
                else "before and after need time: the column of the result that says in which"
                " bucket a row is, such as time: hour"
            )
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
        return None if self.every is None else _seconds(self.every)

    def around(self, index: int) -> Around:
        """The blocks around its own that a task reads of an input."""
        if self.most_blocks is not None:
            buckets, most = self.buckets_around(index), self.most_blocks
            # A bucket of time whose first or last row is in this one reaches no further; with one
            # block more above, in which there would be a row of one that does.
            return Around((buckets.before + 1) * most - 1, (buckets.after + 1) * most)
        look = self._look(index)
        return Around(int(look.before), int(look.after))

    def buckets_around(self, index: int) -> Around:
        """Of time: as many whole ones as before and after reach into."""
        look, every = self._look(index), self.seconds
        assert every is not None, "buckets of time"
        return Around(-(-_seconds(look.before) // every), -(-_seconds(look.after) // every))

    @property
    def reads_around(self) -> bool:
        """Whether rows of other buckets of blocks are among those that are read."""
        return self.every is None and self._is_wide_anywhere

    @property
    def _is_wide_anywhere(self) -> bool:
        return any(each.is_wide for each in (self, *self.inputs.values()))

    def _look(self, index: int) -> LookAround:
        return self.inputs.get(f"input_{index}", self)


def _seconds(time: Distance) -> int:
    return int(time[:-1]) * _UNIT_S[time[-1]] if isinstance(time, str) else 0


def _other_distance(said: Distance, every: str | None) -> str:
    if every is None:
        return f"before and after are blocks with every_blocks, such as 100, and not {said!r}"
    return f"before and after are times with every, such as 2h, and not {said!r} blocks"


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
