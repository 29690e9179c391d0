"""What the datasets of a query are at this moment, or were at another: generations and their files.

A name is what its readers see now; with a generation, or the beginning of its id, always the same;
with a moment what its readers saw then. A task's grant is a generation by itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn
from uuid import UUID

from trace_platform.dispatcher.query_columns import committed_columns
from trace_platform.dispatcher.survey_datasets import dataset_label
from trace_platform.domain.errors import BadInput, GenerationPurged, NotFound, UnknownDataset
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import datasets, overview, query_datasets
from trace_platform.wire.query import DatasetRef, ResolvedDataset, ResolveRequest, ResolveResponse

# Names that an error shows, those that it may mean, and those that are looked through for them.
_SHOWN, _ALIKE, _MOST_NAMES = 20, 3, 10_000


@dataclass(frozen=True, slots=True)
class _Found:
    """A generation of a dataset, now or as it was at a moment."""

    version: UUID
    moment: datetime | None = None


async def resolve_datasets(
    state: Database, org_id: UUID, request: ResolveRequest
) -> ResolveResponse:
    """In the order of the request, all at one moment: a commit in between would show rows without
    their files. Raise UnknownDataset, GenerationPurged, NotFound or BadInput for the first that
    cannot be read."""
    refs = request.datasets
    for ref in refs:
        _refuse_unclear(ref)
    async with overview.snapshot(state) as tx:
        pinned = await _find_pinned(tx, org_id, refs)
        rows = await query_datasets.described(
            tx,
            org_id,
            [each.version for each in pinned.values()],
            [ref.name for ref in refs if ref.name],
        )
        named = {row["name"]: _Found(version) for version, row in rows.items() if row["is_current"]}
        found: list[_Found] = []
        for n, ref in enumerate(refs):
            each = pinned.get(n) if _is_pinned(ref) else named.get(ref.name)
            if each is None:
                await _refuse_unknown(tx, org_id, ref)
            _refuse_unreadable(ref, each, rows.get(each.version))
            found.append(each)
        places = {
            n: (rows[each.version]["files_version"], each.moment) for n, each in enumerate(found)
        }
        held = await query_datasets.held(tx, places, files=request.files)
    return ResolveResponse(
        datasets=[_resolved(ref, rows[found[n].version], held[n]) for n, ref in enumerate(refs)]
    )


def _is_pinned(ref: DatasetRef) -> bool:
    return bool(ref.version or ref.at or ref.dataset_version)


def _refuse_unclear(ref: DatasetRef) -> None:
    if ref.dataset_version is not None and (ref.name or ref.version or ref.at):
        raise BadInput("a dataset_version stands for itself", hint="leave out name, version and at")
    if ref.dataset_version is None and not ref.name:
        raise BadInput("a reference names nothing", hint="give a name, or a dataset_version")
    if ref.version is not None and ref.at is not None:
        raise BadInput(
            f"'{ref.name}' is pinned twice: to a generation and to a moment",
            hint="give one of version and at",
        )


async def _find_pinned(tx: Tx, org_id: UUID, refs: Sequence[DatasetRef]) -> dict[int, _Found]:
    """By place, as far as there is such a thing: all but the names as they are now."""
    placed = list(enumerate(refs))
    found = {n: _Found(r.dataset_version) for n, r in placed if r.dataset_version is not None}
    pins = {n: (r.name, r.version.lower()) for n, r in placed if r.name and r.version}
    if pins:
        for n, meant in (await query_datasets.pinned(tx, org_id, pins)).items():
            if len(meant) > 1:
                _refuse_ambiguous(*pins[n], len(meant))
            if meant:
                found[n] = _Found(meant[0])
    past = {n: (r.name, r.at) for n, r in placed if r.name and r.at}
    if past:
        moments = await _moments(tx, org_id, [at for _, at in past.values()])
        asked = {n: (name, moments[at]) for n, (name, at) in past.items()}
        seen = await query_datasets.current_at(tx, org_id, asked)
        found |= {n: _Found(version, asked[n][1]) for n, version in seen.items()}
    return found


async def _moments(tx: Tx, org_id: UUID, said: Sequence[str]) -> dict[str, datetime]:
    """Each a moment with its zone, or the id of a deploy: when it took over."""
    deploy_ids = {at: each for at in said if (each := _deploy_id(at)) is not None}
    now, deploys = await query_datasets.moments(tx, org_id, list(deploy_ids.values()))
    moments = {
        at: _cut_over(deploy_ids[at], deploys.get(deploy_ids[at]))
        if at in deploy_ids
        else _moment(at)
        for at in said
    }
    for at, moment in moments.items():
        if moment > now:
            raise BadInput(
                f"{at} is in the future", hint=f"here it is {now.isoformat(timespec='seconds')}"
            )
    return moments


def _deploy_id(at: str) -> UUID | None:
    try:
        return UUID(at)
    except ValueError:
        return None


def _cut_over(deploy_id: UUID, deploy: Row | None) -> datetime:
    if deploy is None:
        raise NotFound(f"there is no deploy {deploy_id}", hint="trace deploys shows what there is")
    if deploy["status"] != "CutOver":
        raise BadInput(
            f"deploy {deploy_id} never took over: it is {deploy['status']}",
            hint="name one that is CutOver, or a moment",
        )
    moment: datetime = deploy["ended_at"]
    return moment


def _moment(at: str) -> datetime:
    example = "such as 2026-01-31T12:00:00Z, or the id of a deploy"
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise BadInput(f"'{at}' is no moment", hint=f"write one in ISO 8601, {example}") from None
    if moment.utcoffset() is None:
        raise BadInput(f"'{at}' says no time zone", hint=f"write it with one, {example}")
    return moment


def _refuse_ambiguous(name: str, pin: str, count: int) -> NoReturn:
    raise BadInput(f"{count} generations of '{name}' begin with {pin}", hint="give more of the id")


async def _refuse_unknown(tx: Tx, org_id: UUID, ref: DatasetRef) -> NoReturn:
    assert ref.name is not None, "a generation by itself is looked for later"
    since = await query_datasets.published_since(tx, org_id, ref.name)
    if since is not None and ref.version is not None:
        raise UnknownDataset(
            f"'{ref.name}' has no generation {ref.version}",
            hint=f"trace datasets versions {ref.name}",
            name=ref.name,
            suggestions=[],
        )
    if since is not None and ref.at is not None:
        raise UnknownDataset(
            f"'{ref.name}' was not published at {ref.at}",
            hint=f"it was for the first time at {since.isoformat()}",
            name=ref.name,
            suggestions=[],
        )
    known = await datasets.names(tx, org_id, _MOST_NAMES)
    near = difflib.get_close_matches(ref.name.lower(), known, n=_ALIKE)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise UnknownDataset(
        f"there is no dataset '{ref.name}'",
        hint=f"{meant}published: {', '.join(known[:_SHOWN]) or 'none yet'}",
        name=ref.name,
        suggestions=near,
    )


def _refuse_unreadable(ref: DatasetRef, found: _Found, row: Row | None) -> None:
    if row is None:
        raise NotFound(f"there is no generation {found.version} of a dataset")
    label = ref.name or dataset_label(row)
    if row["is_table"] and found.moment is not None:
        raise BadInput(
            f"'{label}' is a table, and a table has no past",
            hint="pin a version of it, or read the dataset of its cold part",
        )
    # A version of a DAG that is deployed again has another generation in the place of a purged one.
    replaced = found.moment is not None and row["created_at"] > found.moment
    if replaced or row["purged_at"] is not None:
        said = f"of {ref.at}" if ref.at else str(found.version)
        raise GenerationPurged(
            f"the generation {said} of '{label}' was purged",
            hint=f"trace datasets versions {label} shows what is left",
            name=label,
        )


def _resolved(ref: DatasetRef, row: Row, held: Row) -> ResolvedDataset:
    return ResolvedDataset(
        name=ref.name or row["name"],
        dataset_uuid=row["dataset_uuid"],
        dataset_version=row["version"],
        columns=committed_columns(row),
        files=held["files"],
        # A table says itself how many rows it has.
        row_count=row["table_rows"] or 0 if row["is_table"] else held["row_count"],
        table=row["is_table"],
        mixed=held["mixed"],
        pii=row["pii"],
    )
