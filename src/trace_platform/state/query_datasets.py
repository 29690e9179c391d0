"""What queries read: which generation a name, a pin or a moment stands for, and the files of it.

References travel with their place in the question, `n`: several may mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries
from trace_platform.wire.manifest import ManifestColumn

_sql = load_queries(__file__)


async def moments(
    tx: Tx, org_id: UUID, pins: Sequence[str]
) -> tuple[datetime, dict[str, list[Row]]]:
    """The database's time; and by the beginning of an id the deploys that have it, or whose version
    does, the latest last. An id of neither is left out."""
    rows = await _sql.moments(tx, org_id=org_id, pins=list(pins))
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["pin"] is not None:
            found.setdefault(row["pin"], []).append(row)
    return rows[0]["now"], found


async def pinned(
    tx: Tx, org_id: UUID, pins: Mapping[int, tuple[str, str]]
) -> dict[int, list[UUID]]:
    """By name and a generation's id, or how it begins: what it may mean. Datasets that had the
    name before count where the one that has it knows no such generation."""
    rows = await _sql.pinned(
        tx,
        org_id=org_id,
        ns=list(pins),
        names=[name for name, _ in pins.values()],
        pins=[pin for _, pin in pins.values()],
    )
    found: dict[int, list[Row]] = {n: [] for n in pins}
    for row in rows:
        found[row["n"]].append(row)
    return {n: _meant(each) for n, each in found.items()}


def _meant(rows: Sequence[Row]) -> list[UUID]:
    now = [row["version"] for row in rows if row["has_name"]]
    return now or [row["version"] for row in rows]


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
) -> dict[UUID, Row]:
    """What these generations are, and the current ones of these published datasets; a table with
    the columns of its cold part. What is not there, or another organisation's, is left out."""
    rows = await _sql.described(tx, org_id=org_id, versions=list(versions), names=list(names))
    tables = [row["version"] for row in rows if row["is_table"]]
    cold = await cold_parts(tx, tables) if tables else {}
    return {row["version"]: row | _with_cold(row, cold.get(row["version"])) for row in rows}


async def cold_parts(tx: Tx, versions: Sequence[UUID]) -> dict[UUID, Row]:
    """Of those of these generations that are tables: where the part lies that has left it."""
    rows = await _sql.cold_parts(tx, versions=list(versions))
    return {row["version"]: row for row in rows}


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


def _with_cold(row: Row, cold: Row | None) -> Row:
    if cold is None:
        return {"files_version": row["version"]}
    return {
        "files_version": cold["cold_version"],
        "columns": cold["columns"],
        "purged_at": row["purged_at"] or cold["purged_at"],
    }


async def held(
    tx: Tx, places: Mapping[int, tuple[UUID, datetime | None]], *, files: bool
) -> dict[int, Row]:
    """What generations hold now, or held at a moment: rows, whether the columns differ, the
    hash of one partition's, and the URIs of the files."""
    rows = await _sql.held(
        tx,
        ns=list(places),
        versions=[version for version, _ in places.values()],
        moments=[moment for _, moment in places.values()],
        files=files,
    )
    return {
        row["n"]: row | {"files": row["files"].split("\n") if row["files"] else []} for row in rows
    }


async def columns_of_generations(
    tx: Tx, org_id: UUID, dag_name: str, fingerprints: Mapping[str, str]
) -> list[Row]:
    """By job and output index: what commits said, of the generations with these fingerprints."""
    rows: list[Row] = await _sql.columns_of_generations(
        tx,
        org_id=org_id,
        dag_name=dag_name,
        jobs=list(fingerprints),
        fingerprints=list(fingerprints.values()),
    )
    return rows
