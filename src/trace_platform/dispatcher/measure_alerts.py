"""What somebody should know, as figures. Apart from the others: they do not need Postgres data."""

from __future__ import annotations

from trace_platform.data import alerts_read
from trace_platform.dispatcher.metrics import Metrics, Sample
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row


async def measure_alerts(data: Database, metrics: Metrics) -> int:
    """The alerts of the last day. Finds no work: the next measurement is due after a pause."""
    async with data.transaction() as tx:
        counts = await alerts_read.recent_counts(tx)
    metrics.measured((Sample("trace_alerts", row["n"], _labels(row)) for row in counts), "alerts")
    return 0


def _labels(row: Row) -> dict[str, str]:
    return {name: row[name] for name in ("severity", "code", "dag", "job")}
