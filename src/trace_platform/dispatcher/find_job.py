"""A job by its names, or an error that says which there are."""

from __future__ import annotations

import difflib
from uuid import UUID

from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import dags, overview

# More would be a page of names.
_SHOWN = 20


async def find_job(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> Row:
    """The deployed definition."""
    job = await dags.active_job(tx, org_id, dag_name, job_name)
    if job is None:
        known = await overview.job_names(tx, org_id)
        raise NotFound(
            f"there is no job '{dag_name}.{job_name}'",
            hint=_instead_of(f"{dag_name}.{job_name}", known),
        )
    return job


def _instead_of(name: str, known: list[str]) -> str:
    if not known:
        return "no DAG is deployed yet: trace deploy FILE"
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    shown = ", ".join(known[:_SHOWN])
    more = f", and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"{meant}there are: {shown}{more}"
