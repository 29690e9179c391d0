"""What somebody should know, as figures. Apart from the others: they do not need Postgres data."""

from __future__ import annotations

from uuid import UUID

from trace_platform.data import alerts_read
from trace_platform.data.alerts_read import AlertCount
from trace_platform.dispatcher.datasets.wrong_datasets import wrong_datasets
from trace_platform.dispatcher.health.metrics import Metrics, Sample
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview


async def measure_alerts(state: Database, data: Database, org_id: UUID, metrics: Metrics) -> int:
    """The alerts that stand. Finds no work: the next measurement is due after a pause."""
    async with data.transaction() as tx:
        counts = await alerts_read.counts(tx)
        critical = await alerts_read.critical_standing(tx)
    async with overview.snapshot(state) as tx:
        wrong = await wrong_datasets(tx, org_id, critical)
    samples = [Sample("trace_alerts", row.n, _labels(row)) for row in counts]
    samples += [Sample("trace_dataset_known_wrong", n, {"dataset": d}) for d, n in wrong.items()]
    metrics.measured(samples, "alerts")
    return 0


def _labels(row: AlertCount) -> dict[str, str]:
    return {"severity": row.severity, "code": row.code, "dag": row.dag, "job": row.job}
