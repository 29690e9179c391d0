"""The names that a DAG reads and publishes, against those of the DAGs that are deployed: plan and
deploy tell of each mistake, with its line."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from uuid import UUID

from trace_platform.dag.check.check_dag import CheckedDag
from trace_platform.dag.model.dag import Dag, DatasetRef
from trace_platform.dag.read.dag_yaml import DagError, Path, error_at, invalid_dag
from trace_platform.domain.alike import meant
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import datasets
from trace_platform.wire.plan import JobChange

_KNOWN = 1_000
_KEPT = ("unchanged", "affected")


async def refuse_names(
    tx: Tx, org_id: UUID, checked: CheckedDag, changes: Collection[JobChange]
) -> None:
    """Raise InvalidDag for a dataset that nobody publishes, and for a name that another DAG has.
    A job that stays as it is goes on with what it reads, whatever it is called by now."""
    dag = checked.dag
    kept = {each.job for each in changes if each.action in _KEPT}
    errors = []
    for path, name in _read(dag, kept):
        if await datasets.find_published(tx, org_id, name) is None:
            near = meant(name, await datasets.names(tx, org_id, _KNOWN))
            cure = near or "deploy the DAG that publishes it first"
            errors.append(error_at(checked.root, path, f"nobody publishes {name!r}; {cure}"))
    errors += [
        _taken(checked, taken.name, taken.dag_name)
        for taken in await datasets.names_taken(tx, org_id, dag.name, list(dag.publish))
    ]
    if errors:
        raise invalid_dag(checked.file, errors)


def _read(dag: Dag, kept: Collection[str]) -> Iterator[tuple[Path, str]]:
    for n, job in enumerate(dag.jobs):
        sources = [] if job.name in kept else [edge.source for edge in job.inputs]
        for m, source in enumerate(sources):
            if isinstance(source, DatasetRef) and source.dataset not in dag.publish:
                yield ("jobs", n, "inputs", m, "from", "dataset"), source.dataset


def _taken(checked: CheckedDag, name: str, dag_name: str) -> DagError:
    said = f"the dataset is published by the DAG {dag_name!r}, and it has one producer"
    return error_at(checked.root, ("publish", name), f"{said}: choose another name")
