"""What nobody committed is deleted from the object store; what anybody committed, never.

Twice: the attempts that ended without success, as soon as they are certainly over, and everything
that lies in the store, a piece at a time, so that also what a dead worker wrote after its attempt
was swept is found. Nothing is deleted but what an attempt left whose fence is lost for good, and no
place that a partition points at, current or superseded.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

import structlog

from trace_platform.dispatcher.walk_store import StoredFile, delete_file, files_below, walk
from trace_platform.domain.prefix import attempt_prefix, scratch_prefix
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import garbage
from trace_platform.state.garbage import Attempt, Committed, Verdict
from trace_platform.wire.dataset import Garbage, GarbageItem
from trace_platform.wire.manifest import MANIFEST_NAME, SUCCESS_NAME

log = structlog.get_logger()

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_VERSION = rf"s3://[^/]+/org/{_UUID}/dataset/(?P<dataset>{_UUID})/version/(?P<version>{_UUID})/"
_TASK = re.compile(rf"{_VERSION}(?P<task>{_UUID})/")
_DELIVERY = re.compile(rf"{_VERSION}hooks/[^/]+/")
_LOG = re.compile(rf"s3://[^/]+/org/{_UUID}/logs/(?P<task>{_UUID})/")
_BATCHES = re.compile(rf"s3://[^/]+/buffers/(?P<dataset>{_UUID})/(?P<task>{_UUID})/")
_ATTEMPT = re.compile(r"(?P<attempt>[1-9][0-9]{0,8})(?:/|\.jsonl$)")

# Places that are looked at with one question to the database.
_TOGETHER = 500
# Attempts that one dispatcher sweeps at a time, and how long nobody else does.
_SWEPT = 100
_SWEEP_S = 600.0

Why = Literal["not_committed", "not_published", "stray", "delivery", "log"]


@dataclass(frozen=True, slots=True)
class Collecting:
    """Where to look, and how long ago an attempt has to have ended: longer than a worker that
    lost its task takes to notice."""

    state: Database
    store: ObjectStore
    bucket: str
    scratch_bucket: str
    grace_s: float = 900.0


@dataclass(slots=True)
class _Due:
    """Of one place: all of it when `files` is None, else these files alone."""

    place: str
    why: Why
    there: list[StoredFile]
    files: list[StoredFile] | None = None

    @property
    def gone(self) -> list[StoredFile]:
        return self.there if self.files is None else self.files


@dataclass(slots=True)
class _Judged:
    due: list[_Due] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)


async def collect_garbage(me: Collecting, every_s: float, limit: int = 10_000) -> list[GarbageItem]:
    """One round: what ended badly, then the next piece of the walk unless another dispatcher took
    one less than `every_s` ago. What was deleted."""
    deleted = await sweep_attempts(me)
    async with me.state.transaction() as tx:
        position = await garbage.take_walk(tx, every_s)
    if position is None:
        return deleted
    found = await collect_after(me, position, limit=limit)
    async with me.state.transaction() as tx:
        await garbage.walked_to(tx, found.next or "")
    for place in found.unknown:
        log.warning("unknown_objects", place=place)
    return deleted + found.items


async def sweep_attempts(me: Collecting) -> list[GarbageItem]:
    """Delete what attempts staged that ended without success. Safe in several dispatchers."""
    async with me.state.transaction() as tx:
        await garbage.close_late(tx, me.grace_s)
    deleted: list[GarbageItem] = []
    swept = _SWEPT
    while swept == _SWEPT:
        async with me.state.transaction() as tx:
            attempts = await garbage.due_leftovers(tx, me.grace_s, _SWEPT, _SWEEP_S)
            left = await _left_by(tx, me, attempts)
        # The store may be slow, and no transaction waits for it. Forgotten after it is deleted: a
        # crash here repeats the deletion.
        for due in left:
            due.there = await asyncio.to_thread(files_below, me.store, due.place)
            deleted += await _delete(me, due, dry_run=False)
        async with me.state.transaction() as tx:
            await garbage.forget_leftovers(tx, attempts)
        swept = len(attempts)
    return deleted


async def collect_after(
    me: Collecting, after: str, *, dry_run: bool = False, limit: int = 10_000
) -> Garbage:
    """Delete what is garbage among the next places of the walk, or only say what is."""
    places, position = await asyncio.to_thread(
        walk, me.store, me.bucket, me.scratch_bucket, after, limit
    )
    items: list[GarbageItem] = []
    unknown: set[str] = set()
    for first in range(0, len(places), _TOGETHER):
        judged = await _judge(me, places[first : first + _TOGETHER])
        unknown |= judged.unknown
        for due in judged.due:
            items += await _delete(me, due, dry_run=dry_run)
    return Garbage(items=items, unknown=sorted(unknown), places=len(places), next=position or None)


async def _left_by(tx: Tx, me: Collecting, attempts: Sequence[Attempt]) -> list[_Due]:
    outputs = defaultdict(list)
    for row in await garbage.outputs_of(tx, (task_id for task_id, _ in attempts)):
        outputs[row["task_id"]].append(row)
    staged = {
        attempt_prefix(
            me.bucket, row["org_id"], row["dataset_uuid"], row["dataset_version"], *attempt
        )
        for attempt in attempts
        for row in outputs[attempt[0]]
    }
    batches = {
        (row["dataset_uuid"], *attempt): scratch_prefix(
            me.scratch_bucket, row["dataset_uuid"], *attempt
        )
        for attempt in attempts
        for row in outputs[attempt[0]]
    }
    kept = await garbage.pointed_at(tx, staged, me.grace_s)
    published = await garbage.published(tx, (task_id for task_id, _ in attempts))
    due = [_Due(place, "not_committed", []) for place in sorted(staged - kept.keys())]
    due += [
        _Due(place, "not_published", [])
        for batch, place in sorted(batches.items())
        if batch not in published
    ]
    return due


async def _judge(me: Collecting, places: Sequence[str]) -> _Judged:
    listed = await asyncio.to_thread(_list, me.store, places)
    async with me.state.transaction() as tx:
        moment = await garbage.before(tx, me.grace_s)
        # First who may still commit, then what is committed: never the other way round.
        verdicts = await garbage.judge(tx, set(_attempts(listed)), me.grace_s)
        kept = await garbage.pointed_at(tx, _locations(listed), me.grace_s)
        published = await garbage.published(tx, {task_id for task_id, _ in verdicts})
        generations = await garbage.known_generations(tx, _ids(places, "version"))
        datasets = await garbage.known_datasets(tx, _ids(places, "dataset"))
    judged = _Judged()
    for place, files in listed.items():
        if found := _TASK.fullmatch(place) or _DELIVERY.fullmatch(place):
            if (UUID(found["dataset"]), UUID(found["version"])) not in generations:
                judged.unknown.add(place[: found.end("version") + 1])
            elif _TASK.fullmatch(place):
                _judge_task(judged, place, UUID(found["task"]), files, verdicts, kept)
            else:
                _judge_delivery(judged, place, files, kept.get(place), moment)
        elif found := _LOG.fullmatch(place):
            _judge_log(judged, place, UUID(found["task"]), files, verdicts)
        elif found := _BATCHES.fullmatch(place):
            dataset, task_id = UUID(found["dataset"]), UUID(found["task"])
            if dataset not in datasets:
                judged.unknown.add(place)
                continue
            for attempt, own in _by_attempt(judged, place, files):
                if verdicts[task_id, attempt].over and (dataset, task_id, attempt) not in published:
                    judged.due.append(_Due(f"{place}{attempt}/", "not_published", own))
        else:
            judged.unknown.add(place)
    return judged


def _judge_task(
    judged: _Judged,
    place: str,
    task_id: UUID,
    files: Sequence[StoredFile],
    verdicts: dict[Attempt, Verdict],
    kept: dict[str, Committed],
) -> None:
    for attempt, own in _by_attempt(judged, place, files):
        location = f"{place}{attempt}/"
        committed = kept.get(location)
        if committed is not None:
            promised = {location + name for name in committed.files}
            promised |= {location + MANIFEST_NAME, location + SUCCESS_NAME}
            strays = [file for file in own if file.uri not in promised]
            if strays and committed.settled:
                judged.due.append(_Due(location, "stray", own, strays))
        elif verdicts[task_id, attempt].over:
            judged.due.append(_Due(location, "not_committed", own))
        elif verdicts[task_id, attempt].forgotten:
            judged.unknown.add(location)


def _judge_delivery(
    judged: _Judged,
    place: str,
    files: Sequence[StoredFile],
    committed: Committed | None,
    moment: datetime,
) -> None:
    """A request is over long before the grace is, and no two write one file."""
    promised = committed.files if committed else frozenset()
    lost = [
        file
        for file in files
        if file.name not in promised and file.modified_at is not None and file.modified_at < moment
    ]
    if lost:
        judged.due.append(_Due(place, "delivery", list(files), lost))


def _judge_log(
    judged: _Judged,
    place: str,
    task_id: UUID,
    files: Sequence[StoredFile],
    verdicts: dict[Attempt, Verdict],
) -> None:
    """The log of a task is there as long as its row."""
    found = [verdicts[task_id, attempt] for attempt, _ in _by_attempt(judged, place, files)]
    if found and all(verdict.over and verdict.forgotten for verdict in found):
        judged.due.append(_Due(place, "log", list(files)))


def _list(store: ObjectStore, places: Sequence[str]) -> dict[str, list[StoredFile]]:
    return {place: files_below(store, place) if _is_ours(place) else [] for place in places}


def _is_ours(place: str) -> bool:
    return any(kind.fullmatch(place) for kind in (_TASK, _DELIVERY, _LOG, _BATCHES))


def _by_attempt(
    judged: _Judged, place: str, files: Sequence[StoredFile]
) -> Iterator[tuple[int, list[StoredFile]]]:
    """The files of a task's folder by attempt; what belongs to none is reported."""
    by: dict[int, list[StoredFile]] = defaultdict(list)
    for file in files:
        found = _ATTEMPT.match(file.name)
        if found is None:
            judged.unknown.add(file.uri)
        else:
            by[int(found["attempt"])].append(file)
    yield from by.items()


def _attempts(listed: dict[str, list[StoredFile]]) -> Iterator[Attempt]:
    for place, files in listed.items():
        task = _TASK.fullmatch(place) or _LOG.fullmatch(place) or _BATCHES.fullmatch(place)
        if task is not None:
            for attempt, _ in _by_attempt(_Judged(), place, files):
                yield UUID(task["task"]), attempt


def _locations(listed: dict[str, list[StoredFile]]) -> Iterator[str]:
    for place, files in listed.items():
        if _TASK.fullmatch(place):
            yield from (f"{place}{n}/" for n, _ in _by_attempt(_Judged(), place, files))
        elif _DELIVERY.fullmatch(place):
            yield place


def _ids(places: Iterable[str], kind: Literal["version", "dataset"]) -> Iterator[UUID]:
    for place in places:
        found = _TASK.fullmatch(place) or _DELIVERY.fullmatch(place)
        if kind == "dataset":
            found = found or _BATCHES.fullmatch(place)
        if found is not None:
            yield UUID(found[kind])


async def _delete(me: Collecting, due: _Due, *, dry_run: bool) -> list[GarbageItem]:
    if not due.gone:
        return []
    if not dry_run:
        await asyncio.to_thread(_delete_now, me.store, due)
    item = GarbageItem(
        place=due.place,
        why=due.why,
        objects=len(due.gone),
        bytes=sum(file.bytes for file in due.gone),
    )
    if not dry_run:
        log.info("garbage_deleted", **item.model_dump())
    return [item]


def _delete_now(store: ObjectStore, due: _Due) -> None:
    if due.files is None:
        store.delete_prefix(due.place)
        return
    for file in due.files:
        delete_file(store, due.place, file)
