"""Figures for Prometheus: counted where queries end, read from the admission when wanted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from trace_platform.query.service.admission import Admission

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_ANSWERS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """A registry of its own."""

    def __init__(self, admission: Admission) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Measured(admission))
        count = partial(Counter, registry=self._registry)
        self._ends = count(
            "trace_queries", "Queries that ended, by who asked and how.", ["kind", "outcome"]
        )
        self._rows = count("trace_query_rows", "Rows that were given.", ["kind"])
        self._bytes = count("trace_query_bytes", "Bytes that were given.", ["kind"])
        self._seconds = Histogram(
            "trace_query_seconds",
            "From the question to the whole answer, waiting included.",
            ["kind"],
            buckets=_ANSWERS_S,
            registry=self._registry,
        )

    def ended(self, kind: str, outcome: str, seconds: float, rows: int, size: int) -> None:
        """`outcome` is "answered" or the code of an error."""
        self._ends.labels(kind, outcome).inc()
        self._seconds.labels(kind).observe(seconds)
        self._rows.labels(kind).inc(rows)
        self._bytes.labels(kind).inc(size)

    def exposition(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self._registry)


class _Measured:
    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "trace_queries_running", "Queries that run.", value=self._admission.running
        )
        yield GaugeMetricFamily(
            "trace_queries_waiting", "Queries that wait for a place.", value=self._admission.waiting
        )
