"""`aggregator`: one event once a key has arrived from so many of the job's inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from trace_platform.dag.model.fields import Count
from trace_platform.operators.accepts import ANYTHING, PARTITION, TICK, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig


class Config(OperatorConfig):
    need: Count | Literal["all"] = Field(
        default="all",
        description="From how many of the job's inputs a key has to arrive: a number, or all "
        "of them.",
    )
    by: Literal["partition", "cursor"] | None = Field(
        default=None,
        description="What the key is: the `partition` key of an update, or its `cursor`; "
        "whichever the update has unless given.",
    )
    timeout: float | None = Field(
        default=None,
        strict=True,
        gt=0,
        le=366 * 86_400,
        description="Seconds from a key's first arrival after which `on_timeout` applies; "
        "without it a key waits for ever.",
    )
    on_timeout: Literal["emit", "drop"] = Field(
        default="emit",
        description="What happens to a key that timed out. `emit`: the event goes out with "
        "what has arrived. `drop`: it never does.",
    )

    def accepts(self) -> Accepts | None:
        if self.by is None:
            return None
        return Accepts(TICK if self.by == "cursor" else PARTITION, several=True)

    @field_validator("need", mode="before")
    @classmethod
    def _one_error(cls, value: Any) -> Any:
        # A union would tell what is wrong once per alternative.
        if value != "all" and (type(value) is not int or value < 1):
            raise ValueError("write how many of the inputs, 1 or more, or all")
        return value


class Aggregator:
    name: ClassVar[str] = "aggregator"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("complete",)
    accepts: ClassVar[Accepts] = ANYTHING
    emits: ClassVar[Updates | None] = None
    has_rows: ClassVar[bool] = False

    @staticmethod
    def problems(inputs: int, config: Any) -> Iterator[str]:
        if config.need != "all" and config.need > inputs:
            yield f"need is {config.need}, and the job reads {inputs} datasets"
