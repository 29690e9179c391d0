"""Jobs of several DAGs that feed each other in a circle would never come to an end."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from uuid import UUID

from trace_platform.dag.model.dag import Dag, InputEdge, JobOutputRef
from trace_platform.domain.errors import InvalidDag
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import datasets, generations


async def refuse_cycles(tx: Tx, org_id: UUID, dag: Dag) -> None:
    """Raise InvalidDag when a job of this DAG would come to read what it makes, by way of others.
    Within the DAG that is known from the file alone."""
    read = {job.name: [await _producer(tx, org_id, dag, e) for e in job.inputs] for job in dag.jobs}
    if all(each is None or each[0] == dag.name for inputs in read.values() for each in inputs):
        return
    above = {(dag.name, name): [each for each in inputs if each] for name, inputs in read.items()}
    for edge in await generations.edges_elsewhere(tx, org_id, dag.name):
        reader = (edge.reader_dag, edge.reader_job)
        above.setdefault(reader, []).append((edge.dag_name, edge.job_name))
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        trail = " -> ".join(".".join(job) for job in error.args[1])
        raise InvalidDag(
            f"jobs of several DAGs would form a cycle: {trail}",
            hint="let one of them read something else",
        ) from None


async def _producer(tx: Tx, org_id: UUID, dag: Dag, edge: InputEdge) -> tuple[str, str] | None:
    if isinstance(edge.source, JobOutputRef):
        return dag.name, edge.source.job
    found = await datasets.find_published(tx, org_id, edge.source.dataset)
    return (found.dag_name, found.job_name) if found else None
