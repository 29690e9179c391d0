"""The datasets of a running instance, as a user sees them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pydantic import RootModel

from trace_platform.app.api_client.service_client import get, post, segment
from trace_platform.app.instance.home import Home
from trace_platform.wire.control import Why
from trace_platform.wire.dataset import (
    DatasetDetail,
    DatasetEntries,
    DatasetFiles,
    DatasetVersions,
    DatasetWhy,
    Garbage,
    GarbageExplanation,
    Lineage,
    Partitions,
    PurgePlan,
    PurgeResponse,
)


class _AnyWhy(RootModel[Why | DatasetWhy]):
    pass


def datasets(home: Home, *, everything: bool = False) -> DatasetEntries:
    return get(home, DatasetEntries, "/v1/datasets", all=str(everything).lower())


def dataset(home: Home, named: str) -> DatasetDetail:
    found = get(home, DatasetDetail, f"/v1/datasets/{segment(named)}")
    return found.model_copy(update={"path": _folder(home, found)})


def _folder(home: Home, found: DatasetDetail) -> str | None:
    """Of the embedded store; in another one there is no path but the URI."""
    if found.table is not None:
        return None
    # Here, because it brings all of Arrow, and most commands have nothing to do with files.
    from trace_platform.drivers.lite.local_store import LocalStore

    filesystem, path = LocalStore(str(home.objects)).filesystem(found.location)
    return path if filesystem.type_name == "local" else None


def versions(home: Home, named: str) -> DatasetVersions:
    return get(home, DatasetVersions, f"/v1/datasets/{segment(named)}/versions")


def partitions(
    home: Home,
    named: str,
    first: int | None = None,
    last: int | None = None,
    at: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Partitions:
    query = {"from": first, "to": last, "at": at, "after": after, "limit": limit}
    return get(home, Partitions, f"/v1/datasets/{segment(named)}/partitions", **query)


def files(
    home: Home, named: str, at: str | None, after: str | None, limit: int = 100
) -> DatasetFiles:
    path = f"/v1/datasets/{segment(named)}/files"
    return get(home, DatasetFiles, path, at=at, after=after, limit=limit)


def collect_garbage(home: Home, *, dry_run: bool, after: str = "") -> Garbage:
    """A round through the next places of the object store."""
    body = {"dry_run": dry_run, "after": after}
    return post(home, Garbage, "/v1/garbage", body)


def explain_garbage(home: Home) -> GarbageExplanation:
    return get(home, GarbageExplanation, "/v1/garbage")


def lineage(
    home: Home, subject: str, column: str | None, direction: str, depth: int | None
) -> Lineage:
    path = f"/v1/lineage/{segment(subject)}"
    return get(home, Lineage, path, column=column, direction=direction, depth=depth)


def plan_purge(home: Home, named: str, generation: str | None, keep: int | None) -> PurgePlan:
    path = f"/v1/datasets/{segment(named)}/purge"
    return get(home, PurgePlan, path, generation=generation, keep=keep)


def purge(home: Home, named: str, versions: Sequence[UUID]) -> PurgeResponse:
    body = {"versions": [str(version) for version in versions]}
    return post(home, PurgeResponse, f"/v1/datasets/{segment(named)}/purge", body)


def why(home: Home, subject: str) -> Why | DatasetWhy:
    """Of a task by its id, of a job as DAG.JOB, or of a dataset by its name."""
    return get(home, _AnyWhy, f"/v1/why/{segment(subject)}").root
