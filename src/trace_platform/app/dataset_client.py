"""The datasets of a running instance, as a user sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel, TypeAdapter

from trace_platform.app.home import Home
from trace_platform.app.service_client import call
from trace_platform.wire.control import Why
from trace_platform.wire.dataset import (
    DatasetDetail,
    DatasetEntries,
    DatasetFiles,
    DatasetVersions,
    DatasetWhy,
    Garbage,
    Lineage,
    Partitions,
    PurgePlan,
    PurgeResponse,
)

Answer = TypeVar("Answer", bound=BaseModel)

_WHY: TypeAdapter[Why | DatasetWhy] = TypeAdapter(Why | DatasetWhy)


def datasets(home: Home, *, everything: bool = False) -> DatasetEntries:
    return _get(home, DatasetEntries, "/v1/datasets", all=str(everything).lower())


def dataset(home: Home, named: str) -> DatasetDetail:
    return _get(home, DatasetDetail, f"/v1/datasets/{_name(named)}")


def versions(home: Home, named: str) -> DatasetVersions:
    return _get(home, DatasetVersions, f"/v1/datasets/{_name(named)}/versions")


def partitions(
    home: Home,
    named: str,
    first: int | None = None,
    last: int | None = None,
    at: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Partitions:
    query: dict[str, Any] = {"from": first, "to": last, "at": at, "after": after, "limit": limit}
    return _get(home, Partitions, f"/v1/datasets/{_name(named)}/partitions", **query)


def files(
    home: Home, named: str, at: str | None, after: str | None, limit: int = 100
) -> DatasetFiles:
    path = f"/v1/datasets/{_name(named)}/files"
    return _get(home, DatasetFiles, path, at=at, after=after, limit=limit)


def collect_garbage(home: Home, *, dry_run: bool, after: str = "") -> Garbage:
    """A round through the next places of the object store."""
    body = {"dry_run": dry_run, "after": after}
    return Garbage.model_validate_json(call(home, "dispatcher", "POST", "/v1/garbage", body))


def lineage(
    home: Home, subject: str, column: str | None, direction: str, depth: int | None
) -> Lineage:
    path = f"/v1/lineage/{_name(subject)}"
    return _get(home, Lineage, path, column=column, direction=direction, depth=depth)


def plan_purge(home: Home, named: str, generation: str | None, keep: int | None) -> PurgePlan:
    path = f"/v1/datasets/{_name(named)}/purge"
    return _get(home, PurgePlan, path, generation=generation, keep=keep)


def purge(home: Home, named: str, versions: Sequence[UUID]) -> PurgeResponse:
    body = {"versions": [str(version) for version in versions]}
    path = f"/v1/datasets/{_name(named)}/purge"
    return PurgeResponse.model_validate_json(call(home, "dispatcher", "POST", path, body))


def why(home: Home, subject: str) -> Why | DatasetWhy:
    """Of a task by its id, of a job as DAG.JOB, or of a dataset by its name."""
    return _WHY.validate_json(call(home, "dispatcher", "GET", f"/v1/why/{_name(subject)}"))


def _get(home: Home, kind: type[Answer], path: str, **query: str | int | None) -> Answer:
    return kind.model_validate_json(call(home, "dispatcher", "GET", path, None, **query))


def _name(text: str) -> str:
    """One segment of a path, whatever a user typed."""
    return quote(text, safe="")
