"""The SQL of a DAG against the columns that this instance knows, before it is deployed."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from trace_platform.dag.check.check_dag import CheckedDag
from trace_platform.dag.check.statements import Known
from trace_platform.dag.model.dag import Dag, DatasetRef
from trace_platform.dag.model.fingerprint import fingerprints
from trace_platform.dispatcher.abis.check_abis import stored_outputs
from trace_platform.dispatcher.datasets.known_columns import said_columns
from trace_platform.dispatcher.versions.read_dag import read_dag
from trace_platform.domain.own_code import Code
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.operators.decode.stored_names import stored_names
from trace_platform.sql.relations import Column
from trace_platform.state import query_datasets
from trace_platform.state.query_datasets import Described
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.query_columns import query_columns


async def check_sql(
    state: Database, org_id: UUID, checked: CheckedDag, yaml: str, runtimes: Runtimes, code: Code
) -> CheckedDag:
    """What `read_dag` has read from this file, once more with the columns that are there. Raise
    InvalidDag for what does not fit them."""
    dag = checked.dag
    by_stored = any(stored_names(job.operator, job.config) for job in dag.jobs)
    if not checked.has_sql and not by_stored:
        return checked
    async with state.transaction() as tx:
        stored = await stored_outputs(tx, org_id, dag)
        own = await _of_its_own(tx, org_id, dag)
        own |= {output: _named(each.columns) for output, each in stored.items()}
        made_of = {output: each.made_of for output, each in stored.items()}
        known = Known(await _of_others(tx, org_id, dag), own, made_of)
    return await read_dag(yaml, checked.file, runtimes, code, known)


async def _of_others(tx: Tx, org_id: UUID, dag: Dag) -> dict[str, list[Column]]:
    """What other DAGs publish, as their readers see it now."""
    sources = [edge.source for job in dag.jobs for edge in job.inputs]
    names = {each.dataset for each in sources if isinstance(each, DatasetRef)} - dag.publish.keys()
    if not names:
        return {}
    rows = await query_datasets.described(tx, org_id, [], sorted(names))
    found = {row.name: _seen(row) for row in rows.values() if row.is_current and row.name}
    return {name: columns for name, columns in found.items() if columns}


async def _of_its_own(tx: Tx, org_id: UUID, dag: Dag) -> dict[tuple[str, int], list[Column]]:
    """Outputs of jobs that mean what they meant: what they wrote is what they write."""
    rows = await query_datasets.columns_of_generations(tx, org_id, dag.name, fingerprints(dag))
    found = {(row.job_name, row.output_index): _named(said_columns(row.columns)) for row in rows}
    return {output: columns for output, columns in found.items() if columns}


def _seen(row: Described) -> list[Column]:
    """Of a table with what its files have besides; none while one of them is not known."""
    if not row.is_table:
        return _named(said_columns(row.columns))
    hot = _named(said_columns(row.table_columns))
    cold = _named(said_columns(row.columns)) if row.columns else []
    there = {column.name for column in cold}
    known = bool(hot) and (bool(cold) or not row.columns)
    return [*cold, *(column for column in hot if column.name not in there)] if known else []


def _named(said: Sequence[ManifestColumn]) -> list[Column]:
    return [Column(each.name, each.type) for each in query_columns(said) or ()]
