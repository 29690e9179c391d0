"""What the columns of a version's outputs are made of, as its file tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import msgspec

from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.sql.derivation import Derivation

_sql = load_queries(__file__)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Derivation).decode


@dataclass(frozen=True, slots=True)
class DerivedOutput:
    """A dataset of an active version; `inputs` are those that origins name by number."""

    dataset_uuid: UUID
    inputs: list[UUID]
    derivation: Derivation


@dataclass(frozen=True, slots=True)
class _OfVersion:
    job_name: str
    output_index: int
    derivation: str


@dataclass(frozen=True, slots=True)
class _OfActive:
    dataset_uuid: UUID
    derivation: str
    inputs: list[UUID]


async def keep(tx: Tx, dag_version_id: UUID, found: Mapping[tuple[UUID, int], Derivation]) -> None:
    """By job and output, in place of what was known of the version before."""
    await _sql.forget(tx, dag_version_id=dag_version_id)
    if found:
        await _sql.keep(
            tx,
            dag_version_id=dag_version_id,
            job_ids=[job_id for job_id, _ in found],
            outputs=[output for _, output in found],
            derivations=[_encode(each).decode() for each in found.values()],
        )


async def of_version(tx: Tx, dag_version_id: UUID | None) -> dict[tuple[str, int], Derivation]:
    """By the name of the job and the output."""
    rows = await _sql.rows(tx, "of_version", _OfVersion, dag_version_id=dag_version_id)
    return {(row.job_name, row.output_index): _decode(row.derivation) for row in rows}


async def of_active(tx: Tx, org_id: UUID) -> list[DerivedOutput]:
    rows = await _sql.rows(tx, "of_active", _OfActive, org_id=org_id)
    return [DerivedOutput(row.dataset_uuid, row.inputs, _decode(row.derivation)) for row in rows]
