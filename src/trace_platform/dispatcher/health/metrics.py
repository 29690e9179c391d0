"""Figures for Prometheus: counted where things happen, measured where they wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from trace_platform.wire.dataset import GarbageItem
from trace_platform.wire.task import Invalidation

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

# From those of every day to those deeper than finality.
_REWRITTEN_BLOCKS = (1, 2, 3, 5, 8, 16, 32, 64, 256, 1_024, 8_192)
# From "at once" to "an hour in the queue".
_WAITS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)

_GAUGES = {
    "trace_queue_depth": "Tasks that could start now.",
    "trace_queue_oldest_age_seconds": "How long the oldest of them waits.",
    "trace_queue_waiting_for_worker": "Those that neither a hold nor their job's limit keeps.",
    "trace_queue_deferred": "Tasks that wait for the pressure on their job to fall.",
    "trace_tasks_running": "Tasks that run.",
    "trace_tasks_retrying": "Failed tasks that will run again.",
    "trace_backpressure_level": "0: none. 1: the low priority is held back, 2: normal too, 3: all.",
    "trace_job_holds": "What keeps the job from starting tasks: a user, or consumers behind.",
    "trace_source_lag_seconds": "How long ago the source emitted its newest event.",
    "trace_source_heartbeat_age_seconds": "How long ago a source that runs was heard.",
    "trace_source_behind": "How far a source is behind the outside: of a follower, in blocks.",
    "trace_source_heard_age_seconds": "How long ago a source heard how far the outside is.",
    "trace_source_stuck_seconds": "For how long a source that runs does not get on; 0: it does.",
    "trace_dataset_age_seconds": "How long ago a dataset with a max_age changed.",
    "trace_dataset_max_age_seconds": "How old it may be.",
    "trace_outage_seconds": "How long tasks of a job wait for something that is away.",
    "trace_outbox_rows": "Side effects that are owed.",
    "trace_outbox_lag_seconds": "How long the oldest of them is due.",
    "trace_alerts": "Alerts that stand: critical ones, and other ones of the last day.",
    "trace_dataset_known_wrong": "Critical alerts that stand and say that rows of it are wrong.",
    "trace_workers": "Workers that are alive.",
    "trace_worker_slots": "Their slots, busy and free.",
    "trace_worker_source_slots": "Their slots for runs of sources, busy and free.",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure of a gauge."""

    name: str
    value: float
    labels: Mapping[str, str]


class Metrics:
    """A registry of its own. The gauges that are measured together are replaced as a whole by each
    measurement, so a job that vanished takes its figures along."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._samples: dict[str, list[Sample]] = {}
        self._registry.register(_Measured(self))
        self._waits = Histogram(
            "trace_task_queued_to_start_seconds",
            "From queued to started, observed at the claim.",
            buckets=_WAITS_S,
            registry=self._registry,
        )
        self._expiries = Counter(
            "trace_lease_expiries", "Attempts whose worker went silent.", registry=self._registry
        )
        self._retries = Counter(
            "trace_task_retries", "Failed tasks that were queued again.", registry=self._registry
        )
        self._ends = Counter(
            "trace_tasks_ended",
            "Attempts that ended their task or failed, by how.",
            ["status"],
            registry=self._registry,
        )
        self._rewrites = Counter(
            "trace_range_rewrites",
            "Parts of tables that running attempts rewrote, one per table: reorgs.",
            ["dag", "job"],
            registry=self._registry,
        )
        self._rewritten_blocks = Histogram(
            "trace_range_rewrite_blocks",
            "How many blocks were rewritten at once, all tables as one: of a reorg, its depth.",
            ["dag", "job"],
            buckets=_REWRITTEN_BLOCKS,
            registry=self._registry,
        )
        self._garbage = Counter(
            "trace_garbage_deleted_objects",
            "Objects that nobody had committed, by why they were there.",
            ["why"],
            registry=self._registry,
        )
        self._garbage_bytes = Counter(
            "trace_garbage_deleted_bytes", "Their size.", registry=self._registry
        )
        for status in ("Completed", "Failed", "Canceled"):
            self._ends.labels(status)

    def tasks_started(self, waited_s: Iterable[float]) -> None:
        """Tasks were claimed that had been queued for so long."""
        for seconds in waited_s:
            self._waits.observe(max(seconds, 0.0))

    def leases_expired(self, count: int) -> None:
        self._expiries.inc(count)

    def tasks_retried(self, count: int) -> None:
        self._retries.inc(count)

    def tasks_ended(self, statuses: Iterable[str]) -> None:
        for status in statuses:
            self._ends.labels(status).inc()

    def ranges_rewritten(self, dag: str, job: str, ranges: Sequence[Invalidation]) -> None:
        self._rewrites.labels(dag, job).inc(len(ranges))
        # A reorg rewrites the same blocks of every table.
        for start, end in {(each.start, each.end) for each in ranges}:
            if start is not None and end is not None:
                self._rewritten_blocks.labels(dag, job).observe(end - start + 1)

    def garbage_deleted(self, items: Iterable[GarbageItem]) -> None:
        for item in items:
            self._garbage.labels(item.why).inc(item.objects)
            self._garbage_bytes.inc(item.bytes)

    def measured(self, samples: Iterable[Sample], group: str = "state") -> None:
        """How things are now; everything that was measured of the group before is forgotten."""
        self._samples[group] = list(samples)

    @property
    def samples(self) -> list[Sample]:
        return [sample for group in self._samples.values() for sample in group]

    def exposition(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self._registry)


class _Measured:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[GaugeMetricFamily]:
        by_name: dict[str, list[Sample]] = {name: [] for name in _GAUGES}
        for sample in self._metrics.samples:
            by_name[sample.name].append(sample)
        for name, samples in by_name.items():
            labels = list(samples[0].labels) if samples else []
            family = GaugeMetricFamily(name, _GAUGES[name], labels=labels)
            for sample in samples:
                family.add_metric([sample.labels[label] for label in labels], sample.value)
            yield family
