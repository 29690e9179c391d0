"""What queries read: which generation a name, a pin or a moment stands for, and the files of it.

References travel with their place in the question, `n`: several may mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.wire.manifest import ManifestColumn

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class DeployMoment:
    """The time; and where a pin named one, a deploy."""

    now: datetime
    pin: str | None
    id: UUID | None
    to_version: UUID | None
    status: str | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Meant:
    n: int
    version: UUID
    has_name: bool


@dataclass(frozen=True, slots=True)
class Described:
    """A generation of a dataset: what it is, and what is said of its columns."""

    version: UUID
    files_version: UUID
    dataset_uuid: UUID
    name: str | None
    dag_name: str
    job_name: str
    output_index: int
    is_current: bool
    columns: list[Any] | None
    created_at: datetime
    purged_at: datetime | None
    is_table: bool
    table_rows: int | None
    table_columns: list[Any] | None
    present_columns: list[Any] | None
    present_pii: list[str] | None
    pii: list[str]


@dataclass(frozen=True, slots=True)
class ColdGeneration:
    """The part that has left a table."""

    version: UUID
    cold_uuid: UUID
    cold_version: UUID
    columns: list[Any] | None
    purged_at: datetime | None


@dataclass(frozen=True, slots=True)
class HeldContent:
    n: int
    row_count: int
    mixed: bool
    schema_hash: str | None
    # One on a line.
    files: str | None

    @property
    def uris(self) -> list[str]:
        return self.files.split("\n") if self.files else []


@dataclass(frozen=True, slots=True)
class OutputColumns:
    job_name: str
    output_index: int
    columns: list[Any]


async def moments(
    tx: Tx, org_id: UUID, pins: Sequence[str]
) -> tuple[datetime, dict[str, list[DeployMoment]]]:
    """The database's time; and by the beginning of an id the deploys that have it, or whose version
    does, the latest last. An id of neither is left out."""
    rows = await _sql.rows(tx, "moments", DeployMoment, org_id=org_id, pins=list(pins))
    found: dict[str, list[DeployMoment]] = {}
    for row in rows:
        if row.pin is not None:
            found.setdefault(row.pin, []).append(row)
    return rows[0].now, found


async def pinned(
    tx: Tx, org_id: UUID, pins: Mapping[int, tuple[str, str]]
) -> dict[int, list[UUID]]:
    """By name and a generation's id, or how it begins: what it may mean. Datasets that had the
    name before count where the one that has it knows no such generation."""
    rows = await _sql.rows(
        tx,
        "pinned",
        _Meant,
        org_id=org_id,
        ns=list(pins),
        names=[name for name, _ in pins.values()],
        pins=[pin for _, pin in pins.values()],
    )
    found: dict[int, list[_Meant]] = {n: [] for n in pins}
    for row in rows:
        found[row.n].append(row)
    return {n: _meant(each) for n, each in found.items()}


def _meant(rows: Sequence[_Meant]) -> list[UUID]:
    now = [row.version for row in rows if row.has_name]
    return now or [row.version for row in rows]


async def current_at(
    tx: Tx, org_id: UUID, names: Mapping[int, tuple[str, datetime]]
) -> dict[int, UUID]:
    """By name and moment: the generation that readers saw then."""
    rows = await _sql.current_at(
        tx,
        org_id=org_id,
        ns=list(names),
        names=[name for name, _ in names.values()],
        moments=[moment for _, moment in names.values()],
    )
    return {row["n"]: row["version"] for row in rows}


async def published_since(tx: Tx, org_id: UUID, name: str) -> datetime | None:
    since: datetime | None = await _sql.published_since(tx, org_id=org_id, name=name)
    return since


async def described(
    tx: Tx, org_id: UUID, versions: Sequence[UUID], names: Sequence[str] = ()
) -> dict[UUID, Described]:
    """What these generations are, and the current ones of these published datasets; a table with
    the columns of its cold part. What is not there, or another organisation's, is left out."""
    rows = await _sql.rows(
        tx, "described", Described, org_id=org_id, versions=list(versions), names=list(names)
    )
    tables = [row.version for row in rows if row.is_table]
    cold = await cold_parts(tx, tables) if tables else {}
    return {row.version: _with_cold(row, cold.get(row.version)) for row in rows}


async def cold_parts(tx: Tx, versions: Sequence[UUID]) -> dict[UUID, ColdGeneration]:
    """Of those of these generations that are tables: where the part lies that has left it."""
    rows = await _sql.rows(tx, "cold_parts", ColdGeneration, versions=list(versions))
    return {row.version: row for row in rows}


async def columns_of_version(tx: Tx, dag_version_id: UUID) -> dict[str, list[str]]:
    """By published name, as far as commits said them."""
    rows = await _sql.columns_of_version(tx, dag_version_id=dag_version_id)
    return {row["name"]: row["columns"] for row in rows}


async def committed_columns(
    tx: Tx, dag_version_id: UUID
) -> dict[tuple[str, int], list[ManifestColumn]]:
    """By job and index of the output, as far as they are known."""
    rows = await _sql.committed_columns(tx, dag_version_id=dag_version_id)
    return {
        (row["job_name"], row["output_index"]): [
            ManifestColumn.model_validate(column) for column in row["columns"]
        ]
        for row in rows
    }


def _with_cold(row: Described, cold: ColdGeneration | None) -> Described:
    if cold is None:
        return row
    return replace(
        row,
        files_version=cold.cold_version,
        columns=cold.columns,
        purged_at=row.purged_at or cold.purged_at,
    )


async def held(
    tx: Tx, places: Mapping[int, tuple[UUID, datetime | None]], *, files: bool
) -> dict[int, HeldContent]:
    """What generations hold now, or held at a moment: rows, whether the columns differ, the
    hash of one partition's, and the URIs of the files."""
    rows = await _sql.rows(
        tx,
        "held",
        HeldContent,
        ns=list(places),
        versions=[version for version, _ in places.values()],
        moments=[moment for _, moment in places.values()],
        files=files,
    )
    return {row.n: row for row in rows}


async def columns_of_generations(
    tx: Tx, org_id: UUID, dag_name: str, fingerprints: Mapping[str, str]
) -> list[OutputColumns]:
    """By job and output index: what commits said, of the generations with these fingerprints."""
    return await _sql.rows(
        tx,
        "columns_of_generations",
        OutputColumns,
        org_id=org_id,
        dag_name=dag_name,
        jobs=list(fingerprints),
        fingerprints=list(fingerprints.values()),
    )
