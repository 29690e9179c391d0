"""A personal column whose name is misspelt would be shown to everybody."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dag.model.dag import Dag
from trace_platform.domain.alike import meant
from trace_platform.domain.errors import InvalidDag
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import query_datasets


async def refuse_unknown_pii(tx: Tx, dag: Dag, version: UUID) -> None:
    """Raise InvalidDag for a name in `pii` that is no column of what the version publishes, as far
    as that is built and its columns are known: else queries find out."""
    known = await query_datasets.columns_of_version(tx, version)
    for name, publish in dag.publish.items():
        spelled = {column.lower() for column in known.get(name, ())}
        for column in publish.pii:
            if spelled and column.lower() not in spelled:
                raise InvalidDag(
                    f"the `pii` of '{name}' names '{column}', which is none of its columns",
                    hint=meant(column, known[name]) or f"they are {', '.join(known[name])}",
                )
