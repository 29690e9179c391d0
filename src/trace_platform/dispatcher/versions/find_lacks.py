"""What a DAG needs to run and is not there: workers of its runtimes, and slots for its sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from uuid import UUID

from trace_platform.dag.check.check_dag import CheckedDag
from trace_platform.dag.model.dag import Dag
from trace_platform.domain.figures import count
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import overview, sources
from trace_platform.state.overview import AliveWorker


async def find_lacks(tx: Tx, org_id: UUID, checked: CheckedDag, runtimes: Runtimes) -> list[str]:
    """One warning each. It is deployed all the same: workers may come later."""
    dag = checked.dag
    workers = await overview.workers(tx)
    others = await sources.always_on_elsewhere(tx, org_id, dag.name)
    lacks = [
        *_without_worker(dag, runtimes, workers),
        *_without_source_slot(dag, others, workers),
    ]
    return [f"{checked.file}: warning: {said}" for said in lacks]


def _without_worker(dag: Dag, runtimes: Runtimes, workers: list[AliveWorker]) -> Iterator[str]:
    alive = {worker.runtime for worker in workers}
    polled = {runtime.name for runtime in runtimes if runtime.kind == "queue"}
    for runtime in dict.fromkeys(job.runtime for job in dag.jobs):
        if runtime in polled - alive:
            waiting = ", ".join(job.name for job in dag.jobs if job.runtime == runtime)
            yield (
                f"no worker of runtime {runtime} is alive, so these jobs wait: {waiting};"
                " trace status shows the processes"
            )


def _without_source_slot(
    dag: Dag, others: Mapping[str, int], workers: list[AliveWorker]
) -> Iterator[str]:
    own = Counter(job.runtime for job in dag.jobs if job.always_on and job.runtime)
    slots: Counter[str] = Counter()
    for worker in workers:
        slots[worker.runtime] += worker.source_slots
    for runtime, needed in own.items():
        wanted = needed + others.get(runtime, 0)
        # Without any worker that is what has to be said.
        if runtime in slots and wanted > slots[runtime]:
            yield (
                f"{count(wanted, 'always_on source')} of runtime {runtime} need a slot each, and"
                f" its workers have {slots[runtime]:,}: {wanted - slots[runtime]:,} will wait;"
                " raise [worker] source_slots in config.toml, or add a worker"
            )
