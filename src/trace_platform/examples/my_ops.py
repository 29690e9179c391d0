"""Operators of our own: own_code.yaml names them."""

from pydantic import Field

from trace_platform.operators import frames
from trace_platform.operators.accepts import ONE_RANGE, RANGE
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext


def share_of(used: int, limit: int) -> float:
    return used / limit if limit else 0.0


class FullBlocks:
    """The blocks that use much of their gas limit, with how much that is."""

    class Config(OperatorConfig):
        min_share: float = Field(0.9, ge=0, le=1, description="Of the gas limit, from 0 to 1.")

    output_names = ("full_blocks",)
    accepts = ONE_RANGE
    emits = RANGE

    def run(self, task: TaskContext) -> Result:
        from pyspark.sql.functions import udf

        with frames.opened(task) as data:
            blocks = data.read(0)
            # A function of this file, run where the rows are.
            share = udf(share_of, "double", useArrow=True)
            shares = blocks.select(
                "block_number", "timestamp", share("gas_used", "gas_limit").alias("share")
            )
            full = shares.filter(shares.share >= task.config.min_share)
            return Result(outputs=[data.write(0, full)])
