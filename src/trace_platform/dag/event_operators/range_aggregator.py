"""`range_aggregator`: small block ranges to chunks of one size, each once it is whole and final."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from trace_platform.operators.accepts import RANGE, RANGES, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig


class Config(OperatorConfig):
    chunk_blocks: int = Field(
        ge=1,
        le=2**40,
        description="Blocks per chunk. Chunks begin at multiples of it; the first one may "
        "begin later.",
    )
    finality_depth: int = Field(
        default=0,
        ge=0,
        le=2**40,
        description="Blocks that must be known after a chunk before it is emitted, so that "
        "no reorg should reach it.",
    )


class RangeAggregator:
    name: ClassVar[str] = "range_aggregator"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("ranges",)
    accepts: ClassVar[Accepts] = RANGES
    emits: ClassVar[Updates | None] = RANGE
    has_rows: ClassVar[bool] = False

    @staticmethod
    def problems(inputs: int, config: Any) -> Iterator[str]:
        return iter(())
