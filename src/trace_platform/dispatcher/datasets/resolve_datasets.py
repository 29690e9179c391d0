"""What the datasets of a query are at this moment, or were at another: generations and their files.

A name is what its readers see now; with a generation, or the beginning of its id, always the same;
with a moment what its readers saw then. A task's grant is a generation by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn
from uuid import UUID

from trace_platform.dispatcher.datasets.find_dataset import MOST_NAMES, SHOWN
from trace_platform.dispatcher.datasets.known_columns import known_columns, said_columns
from trace_platform.dispatcher.datasets.survey_datasets import dataset_label
from trace_platform.domain.alike import alike, did_you_mean, listed
from trace_platform.domain.errors import (
    BadInput,
    GenerationPurged,
    NotFound,
    PastForgotten,
    UnknownDataset,
)
from trace_platform.domain.moment import moment_or_id
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import datasets, overview, query_datasets, superseded
from trace_platform.state.query_datasets import DeployMoment, Described, HeldContent
from trace_platform.wire.manifest import ManifestColumn, schema_hash
from trace_platform.wire.query import DatasetRef, ResolvedDataset, ResolveRequest, ResolveResponse
from trace_platform.wire.query_columns import merges_of, query_columns

# Of names that an error says may be meant.
_ALIKE = 3


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
        named = {row.name: _Found(version) for version, row in rows.items() if row.is_current}
        found: list[_Found] = []
        for n, ref in enumerate(refs):
            each = pinned.get(n) if _is_pinned(ref) else named.get(ref.name)
            if each is None:
                await _refuse_unknown(tx, org_id, ref)
            _refuse_unreadable(ref, each, rows.get(each.version))
            found.append(each)
        places = {
            n: (rows[each.version].files_version, each.moment) for n, each in enumerate(found)
        }
        await _refuse_lost_moments(tx, refs, places)
        held = await query_datasets.held(tx, places, files=request.files)
    return ResolveResponse(
        datasets=[
            _resolved(ref, found[n], rows[found[n].version], held[n]) for n, ref in enumerate(refs)
        ]
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
    found: dict[int, _Found] = {}
    pins: dict[int, tuple[str, str]] = {}
    past: dict[int, tuple[str, datetime]] = {}
    meant_by = await _meant_by(tx, org_id, [ref.at for ref in refs if ref.at])
    for n, ref in enumerate(refs):
        pin = meant_by[ref.at] if ref.at else ref.version and ref.version.lower()
        if ref.dataset_version is not None:
            found[n] = _Found(ref.dataset_version)
        elif ref.name and isinstance(pin, datetime):
            past[n] = ref.name, pin
        elif ref.name and isinstance(pin, str):
            pins[n] = ref.name, pin
    if pins:
        for n, meant in (await query_datasets.pinned(tx, org_id, pins)).items():
            if len(meant) > 1:
                _refuse_ambiguous(*pins[n], len(meant))
            if meant:
                found[n] = _Found(meant[0])
            elif refs[n].at:
                _refuse_nothing(*pins[n])
    if past:
        seen = await query_datasets.current_at(tx, org_id, past)
        found |= {n: _Found(version, past[n][1]) for n, version in seen.items()}
    return found


async def _meant_by(tx: Tx, org_id: UUID, said: Sequence[str]) -> dict[str, datetime | str]:
    """Each a moment, also when a deploy or a version of a DAG took over; else what can only be the
    id of a generation."""
    if not said:
        return {}
    meant_by = {at: moment_or_id(at) for at in said}
    ids = [each for each in meant_by.values() if isinstance(each, str)]
    now, deploys = await query_datasets.moments(tx, org_id, ids)
    for at, each in meant_by.items():
        if isinstance(each, str) and each in deploys:
            meant_by[at] = _cut_over(each, deploys[each])
        elif isinstance(each, datetime) and each > now:
            raise BadInput(
                f"{at} is in the future", hint=f"here it is {now.isoformat(timespec='seconds')}"
            )
    return meant_by


def _cut_over(pin: str, deploys: Sequence[DeployMoment]) -> datetime:
    """Of the deploy whose id begins so, or the last one of the version."""
    took_over = [each for each in deploys if each.status == "CutOver"]
    if not took_over:
        raise BadInput(
            f"{pin} never took over: it is {deploys[-1].status}",
            hint="name one that is CutOver, or a moment",
        )
    # The latest come last.
    newest = {each.to_version: each.ended_at for each in took_over}
    moments = {
        each.ended_at if str(each.id).startswith(pin) else newest[each.to_version]
        for each in took_over
    }
    if len(moments) > 1:
        raise BadInput(f"{len(moments)} deploys begin with {pin}", hint="give more of the id")
    moment = moments.pop()
    assert moment is not None, "what has cut over has ended"
    return moment


def _where_versions_are(name: str) -> str:
    """For whoever asks, at a shell, at the prompt, in Python or over HTTP."""
    return (
        f"its generations: `trace datasets versions {name}`, \\d {name} in `trace sql`,"
        f" Client.dataset('{name}') in Python, GET /v1/datasets/{name} over HTTP"
    )


def _refuse_nothing(name: str, pin: str) -> NoReturn:
    raise NotFound(
        f"{pin} is no deploy, no version of a DAG and no generation of '{name}'",
        hint=f"deploys: `trace deploys`; {_where_versions_are(name)}",
    )


def _refuse_ambiguous(name: str, pin: str, count: int) -> NoReturn:
    raise BadInput(f"{count} generations of '{name}' begin with {pin}", hint="give more of the id")


async def _refuse_unknown(tx: Tx, org_id: UUID, ref: DatasetRef) -> NoReturn:
    assert ref.name is not None, "a generation by itself is looked for later"
    since = await query_datasets.published_since(tx, org_id, ref.name)
    if since is not None and ref.version is not None:
        raise UnknownDataset(
            f"'{ref.name}' has no generation {ref.version}",
            hint=_where_versions_are(ref.name),
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
    known = await datasets.names(tx, org_id, MOST_NAMES)
    near = alike(ref.name.lower(), known, _ALIKE)
    raise UnknownDataset(
        f"there is no dataset '{ref.name}'",
        hint=f"{did_you_mean(near)} published: {listed(known, SHOWN)}".lstrip(),
        name=ref.name,
        suggestions=near,
    )


def _refuse_unreadable(ref: DatasetRef, found: _Found, row: Described | None) -> None:
    if row is None:
        raise NotFound(f"there is no generation {found.version} of a dataset")
    label = ref.name or dataset_label(row)
    if row.is_table and found.moment is not None:
        raise BadInput(
            f"'{label}' is a table, and a table has no past",
            hint="pin a version of it, or read the dataset of its cold part",
        )
    # A version of a DAG that is deployed again has another generation in the place of a purged one.
    replaced = found.moment is not None and row.created_at > found.moment
    if replaced or row.purged_at is not None:
        said = f"of {ref.at}" if ref.at else str(found.version)
        raise GenerationPurged(
            f"the generation {said} of '{label}' was purged",
            hint=_where_versions_are(label),
            name=label,
        )


async def _refuse_lost_moments(
    tx: Tx, refs: Sequence[DatasetRef], places: Mapping[int, tuple[UUID, datetime | None]]
) -> None:
    """Rather than show fewer rows than there were."""
    past = {n: (version, moment) for n, (version, moment) in places.items() if moment is not None}
    for n in sorted(await superseded.lost_moments(tx, past) if past else ()):
        raise PastForgotten(
            f"'{refs[n].name}' cannot be read as it was at {refs[n].at}:"
            " files of then were deleted after newer ones took their place",
            hint="ask for a later moment; such files stay for [dispatcher] superseded_days",
            name=refs[n].name,
        )


def _resolved(ref: DatasetRef, found: _Found, row: Described, held: HeldContent) -> ResolvedDataset:
    said = said_columns(row.columns)
    return ResolvedDataset(
        name=ref.name or row.name,
        published_as=row.name,
        label=dataset_label(row),
        dataset_uuid=row.dataset_uuid,
        dataset_version=row.version,
        at=found.moment,
        columns=query_columns(said),
        files=held.uris,
        # A table says itself how many rows it has.
        row_count=row.table_rows or 0 if row.is_table else held.row_count,
        table=row.is_table,
        mixed=held.mixed or _is_narrower(held, said),
        merges=merges_of(said),
        pii=row.pii,
        pii_missing=_missing(row, said),
        not_personal=_not_personal(row),
    )


def _is_narrower(held: HeldContent, said: Sequence[ManifestColumn]) -> bool:
    """Whether files that are all alike lack columns that the generation has by other commits."""
    return bool(said) and held.schema_hash not in (None, schema_hash(said))


def _missing(row: Described, said: Sequence[ManifestColumn]) -> list[str]:
    """Only of what readers see now, and where all columns are said: of an older generation `pii`
    names columns of others too, and a table may have more than its cold part. Elsewhere the query
    itself finds out, and masks what nobody knows about."""
    known = {column.name.lower() for column in (*said, *known_columns(row))}
    is_read = row.is_current and row.name is not None
    if not is_read or not known or (row.is_table and not row.table_columns):
        return []
    return [column for column in row.pii if column.lower() not in known]


def _not_personal(row: Described) -> list[str]:
    """Of an older generation: the columns that the dataset has now, but for those that it says to
    be personal. None where that cannot be believed: it names one that is not there, or has no
    readers any more."""
    if row.is_current or row.present_pii is None:
        return []
    present = [column.name for column in said_columns(row.present_columns)]
    personal = {column.lower() for column in row.present_pii}
    if not personal <= {name.lower() for name in present}:
        return []
    return [name for name in present if name.lower() not in personal]
