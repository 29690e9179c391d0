"""Figures for Prometheus: counted where questions are asked, read from the pools when wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from trace_platform.rpc.pool import Pool

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_ANSWERS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """A registry of its own."""

    def __init__(self, pools: Callable[[], Iterable[Pool]] = tuple) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Measured(pools))
        count = partial(Counter, registry=self._registry)
        self._requests = count("trace_rpc_requests", "Answers of providers.", ["pool", "provider"])
        self._errors = count(
            "trace_rpc_errors", "Failed asks, by why.", ["pool", "provider", "code"]
        )
        self._refusals = count(
            "trace_rpc_refusals", "Questions without an answer, by why.", ["pool", "code"]
        )
        self._retries = count(
            "trace_rpc_retries", "Questions asked once more, or of another.", ["pool"]
        )
        self._bytes = count("trace_rpc_answer_bytes", "Bytes given to clients.", ["pool"])
        self._latency = Histogram(
            "trace_rpc_answer_seconds",
            "From asking a provider to its answer, or its first part when it is large.",
            ["pool", "provider"],
            buckets=_ANSWERS_S,
            registry=self._registry,
        )

    def answered(self, pool: str, provider: str, seconds: float) -> None:
        self._requests.labels(pool, provider).inc()
        self._latency.labels(pool, provider).observe(seconds)

    def failed(self, pool: str, provider: str, code: str) -> None:
        self._errors.labels(pool, provider, code).inc()

    def refused(self, pool: str, code: str) -> None:
        self._refusals.labels(pool, code).inc()

    def retried(self, pool: str) -> None:
        self._retries.labels(pool).inc()

    def given(self, pool: str, n_bytes: int) -> None:
        self._bytes.labels(pool).inc(n_bytes)

    def exposition(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self._registry)


class _Measured:
    def __init__(self, pools: Callable[[], Iterable[Pool]]) -> None:
        self._pools = pools

    def collect(self) -> Iterator[GaugeMetricFamily]:
        labels = ["pool", "provider"]
        up = GaugeMetricFamily("trace_rpc_provider_up", "Whether it is asked.", labels=labels)
        head = GaugeMetricFamily("trace_rpc_head_block", "Its newest block.", labels=labels)
        lag = GaugeMetricFamily("trace_rpc_lag_blocks", "Blocks behind the pool.", labels=labels)
        busy = GaugeMetricFamily("trace_rpc_in_flight", "Questions under way.", labels=labels)
        limits = GaugeMetricFamily(
            "trace_rpc_limits_hit", "Times a limit made questions wait.", labels=labels
        )
        for pool in self._pools():
            for each in pool.providers:
                names = [pool.name, each.name]
                up.add_metric(names, each.state == "ok")
                busy.add_metric(names, each.slots.busy)
                limits.add_metric(names, each.counts.limits_hit)
                if each.head.number is not None:
                    head.add_metric(names, each.head.number)
                if (behind := pool.lag(each)) is not None:
                    lag.add_metric(names, behind)
        yield from (up, head, lag, busy, limits)
