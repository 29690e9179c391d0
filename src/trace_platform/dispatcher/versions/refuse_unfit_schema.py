"""A schema that is declared of data which is there already has to be that of the data."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from uuid import UUID

from trace_platform.dag.check.check_dag import CheckedDag
from trace_platform.dag.model.dag import Dag
from trace_platform.dag.model.declared_columns import Misfit, misfits
from trace_platform.dag.read.dag_yaml import DagError, error_at, invalid_dag
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import query_datasets
from trace_platform.wire.manifest import ManifestColumn

# By job and index of the output.
Known = dict[tuple[str, int], list[ManifestColumn]]


async def refuse_unfit_schema(
    tx: Tx, checked: CheckedDag, version: UUID | None, built: Collection[str] = ()
) -> None:
    """Raise InvalidDag, with the line, for each column of a schema that is not what the version has
    committed already. `built`: jobs whose data is made anew."""
    if version is None:
        return
    known = await query_datasets.committed_columns(tx, version)
    kept = {place: columns for place, columns in known.items() if place[0] not in built}
    errors = list(_errors(checked, kept))
    if errors:
        raise invalid_dag(checked.file, errors)


def _errors(checked: CheckedDag, known: Known) -> Iterator[DagError]:
    for name in checked.dag.publish:
        for each in _misfits(checked.dag, name, known):
            path = ("publish", name, "schema", each.column)
            yield error_at(checked.root, path, f"{each}, in what is committed")


def _misfits(dag: Dag, name: str, known: Known) -> Iterator[Misfit]:
    publish = dag.publish[name]
    job = next(each for each in dag.jobs if each.name == publish.source.job)
    output = job.output_index(publish.source.output)
    columns = known.get((job.name, output)) if output is not None else None
    if columns and publish.storage != "buffered":
        yield from misfits(publish.declared, columns)
