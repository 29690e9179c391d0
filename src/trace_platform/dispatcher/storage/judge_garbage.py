"""What of the object store nobody needs. Nothing is deleted here.

Garbage is what an attempt left whose fence is lost for good, and never a place that a partition
points at, current or superseded. What is no place of ours is reported and left alone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from trace_platform.dispatcher.storage.walk_store import StoredFile, files_below
from trace_platform.domain.prefix import (
    BatchPlace,
    DeliveryPlace,
    LogPlace,
    Place,
    TaskPlace,
    attempt_of,
    attempt_prefix,
    generation_prefix,
    place_of,
    scratch_prefix,
)
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import garbage
from trace_platform.state.garbage import Attempt, Committed, Verdict
from trace_platform.wire.manifest import MANIFEST_NAME, SUCCESS_NAME

Why = Literal["not_committed", "not_published", "stray", "delivery", "log"]


@dataclass(slots=True)
class Due:
    """Of one place: all of it when `files` is None, else these files alone."""

    place: str
    why: Why
    there: list[StoredFile]
    files: list[StoredFile] | None = None

    @property
    def gone(self) -> list[StoredFile]:
        return self.there if self.files is None else self.files


@dataclass(frozen=True, slots=True)
class Judged:
    due: list[Due] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A place of ours and what lies there: by attempt, and what is no attempt's."""

    uri: str
    place: Place
    files: list[StoredFile]
    by_attempt: dict[int, list[StoredFile]]
    others: set[str]


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database has on record."""

    before: datetime
    verdicts: dict[Attempt, Verdict]
    committed: dict[str, Committed]
    published: set[tuple[UUID, UUID, int]]
    generations: set[tuple[UUID, UUID]]
    datasets: set[UUID]


async def left_by(
    tx: Tx, bucket: str, scratch_bucket: str, attempts: Sequence[Attempt], grace_s: float
) -> list[Due]:
    """Where these attempts, which are over, may have left something: not listed yet."""
    outputs = defaultdict(list)
    for row in await garbage.outputs_of(tx, (task_id for task_id, _ in attempts)):
        outputs[row.task_id].append(row)
    staged = {
        attempt_prefix(bucket, row.org_id, row.dataset_uuid, row.dataset_version, *attempt)
        for attempt in attempts
        for row in outputs[attempt[0]]
    }
    batches = {
        (row.dataset_uuid, *attempt): scratch_prefix(scratch_bucket, row.dataset_uuid, *attempt)
        for attempt in attempts
        for row in outputs[attempt[0]]
    }
    kept = await garbage.pointed_at(tx, staged, grace_s)
    published = await garbage.published(tx, (task_id for task_id, _ in attempts))
    due = [Due(place, "not_committed", []) for place in sorted(staged - kept.keys())]
    due += [
        Due(place, "not_published", [])
        for batch, place in sorted(batches.items())
        if batch not in published
    ]
    return due


async def judge_garbage(
    state: Database, store: ObjectStore, uris: Sequence[str], grace_s: float
) -> Judged:
    """What is garbage among the places of a walk, and what belongs to nobody we know."""
    folders = await asyncio.to_thread(_list, store, uris)
    async with state.transaction() as tx:
        known = await _look_up(tx, folders, grace_s)
    judged = Judged(unknown=set(uris) - {folder.uri for folder in folders})
    for folder in folders:
        _judge(judged, folder, known)
    return judged


def _list(store: ObjectStore, uris: Sequence[str]) -> list[_Folder]:
    places = ((uri, place_of(uri)) for uri in uris)
    return [_folder(store, uri, place) for uri, place in places if place is not None]


def _folder(store: ObjectStore, uri: str, place: Place) -> _Folder:
    found = _Folder(uri, place, files_below(store, uri), defaultdict(list), set())
    for file in found.files:
        attempt = attempt_of(place, file.name)
        if attempt is None:
            found.others.add(file.uri)
        else:
            found.by_attempt[attempt].append(file)
    return found


async def _look_up(tx: Tx, folders: Sequence[_Folder], grace_s: float) -> _Known:
    attempts = set(_attempts(folders))
    places = [folder.place for folder in folders]
    versions = {at.version for at in places if isinstance(at, TaskPlace | DeliveryPlace)}
    datasets = {at.dataset_uuid for at in places if isinstance(at, BatchPlace)}
    # First who may still commit, then what is committed: never the other way round.
    verdicts = await garbage.judge(tx, attempts, grace_s)
    committed = await garbage.pointed_at(tx, _locations(folders), grace_s)
    return _Known(
        before=await garbage.before(tx, grace_s),
        verdicts=verdicts,
        committed=committed,
        published=await garbage.published(tx, (task_id for task_id, _ in attempts)),
        generations=await garbage.known_generations(tx, versions),
        datasets=await garbage.known_datasets(tx, datasets),
    )


def _attempts(folders: Sequence[_Folder]) -> Iterator[Attempt]:
    for folder in folders:
        if not isinstance(folder.place, DeliveryPlace):
            yield from ((folder.place.task_id, attempt) for attempt in folder.by_attempt)


def _locations(folders: Sequence[_Folder]) -> Iterator[str]:
    for folder in folders:
        if isinstance(folder.place, TaskPlace):
            yield from (f"{folder.uri}{attempt}/" for attempt in folder.by_attempt)
        elif isinstance(folder.place, DeliveryPlace):
            yield folder.uri


def _judge(judged: Judged, folder: _Folder, known: _Known) -> None:
    match folder.place:
        case TaskPlace() | DeliveryPlace() as at if (
            at.dataset_uuid,
            at.version,
        ) not in known.generations:
            judged.unknown.add(generation_prefix(at.bucket, at.org_id, at.dataset_uuid, at.version))
        case BatchPlace() as at if at.dataset_uuid not in known.datasets:
            judged.unknown.add(folder.uri)
        case TaskPlace() as at:
            _judge_task(judged, folder, at.task_id, known)
        case DeliveryPlace():
            _judge_delivery(judged, folder, known)
        case LogPlace() as at:
            _judge_log(judged, folder, at.task_id, known)
        case BatchPlace() as at:
            _judge_batches(judged, folder, at, known)


def _judge_task(judged: Judged, folder: _Folder, task_id: UUID, known: _Known) -> None:
    judged.unknown.update(folder.others)
    for attempt, own in folder.by_attempt.items():
        location = f"{folder.uri}{attempt}/"
        verdict = known.verdicts[task_id, attempt]
        committed = known.committed.get(location)
        if committed is not None:
            promised = {location + name for name in committed.files}
            promised |= {location + MANIFEST_NAME, location + SUCCESS_NAME}
            strays = [file for file in own if file.uri not in promised]
            if strays and committed.settled:
                judged.due.append(Due(location, "stray", own, strays))
        elif verdict.over:
            judged.due.append(Due(location, "not_committed", own))
        elif verdict.forgotten:
            judged.unknown.add(location)


def _judge_delivery(judged: Judged, folder: _Folder, known: _Known) -> None:
    """A request is over long before the grace is, and no two write one file."""
    committed = known.committed.get(folder.uri)
    promised = committed.files if committed else frozenset()
    lost = [
        file
        for file in folder.files
        if file.name not in promised
        and file.modified_at is not None
        and file.modified_at < known.before
    ]
    if lost:
        judged.due.append(Due(folder.uri, "delivery", folder.files, lost))


def _judge_log(judged: Judged, folder: _Folder, task_id: UUID, known: _Known) -> None:
    """The log of a task is there as long as its row."""
    judged.unknown.update(folder.others)
    found = [known.verdicts[task_id, attempt] for attempt in folder.by_attempt]
    if found and all(verdict.over and verdict.forgotten for verdict in found):
        judged.due.append(Due(folder.uri, "log", folder.files))


def _judge_batches(judged: Judged, folder: _Folder, at: BatchPlace, known: _Known) -> None:
    judged.unknown.update(folder.others)
    for attempt, own in folder.by_attempt.items():
        published = (at.dataset_uuid, at.task_id, attempt) in known.published
        if known.verdicts[at.task_id, attempt].over and not published:
            judged.due.append(Due(f"{folder.uri}{attempt}/", "not_published", own))
