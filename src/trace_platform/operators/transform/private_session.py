"""A Spark session of one attempt alone.

Task threads share the warm session: two of them may have a view of one name. An attempt's own has
the functions and the settings of the shared one, views of its own, and no way to files by SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from trace_platform.operators.contract import TaskContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONF = {
    # `SELECT … FROM parquet.`/path`` names no table, then.
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.session.timeZone": "UTC",
}
_MACROS = (
    "CREATE OR REPLACE TEMPORARY FUNCTION block_bucket(block BIGINT, size BIGINT) RETURNS BIGINT"
    " RETURN block - pmod(block, size)",
)


@contextmanager
def private_session(task: TaskContext) -> Iterator[TaskContext]:
    """The same task, whose `spark()` is a session of its own."""
    from pyspark.sql import SparkSession

    shared = task.spark()
    own = SparkSession(shared.sparkContext, shared._jsparkSession.cloneSession())
    for name, value in _CONF.items():
        own.conf.set(name, value)
    _activate(own)
    try:
        yield replace(task, spark=lambda: own)
    finally:
        # The thread's next task finds data sources and settings by the session that is active.
        _activate(shared)


def _activate(session: SparkSession) -> None:
    """In this thread: Spark looks some things up by it, whatever session a frame is of."""
    session._jvm.SparkSession.setActiveSession(session._jsparkSession)


def add_macros(spark: SparkSession) -> None:
    """`block_bucket`, for statements that name it: Spark has all the others."""
    for macro in _MACROS:
        spark.sql(macro)
