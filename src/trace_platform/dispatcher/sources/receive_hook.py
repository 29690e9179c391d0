"""A delivery of a webhook becomes a file, a committed partition and its event.

The signature is the authentication. Whoever has no right one is told the same thing whatever is
wrong, and the log has the reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import secrets as random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

import msgspec
import structlog

from trace_platform.dispatcher.sources.refuse_held import refuse_held
from trace_platform.domain.errors import BadInput, Unauthenticated, Unavailable
from trace_platform.domain.prefix import delivery_key, delivery_prefix
from trace_platform.domain.webhook_signature import SignatureRefused, signing_key, verify
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import datasets, events, locks, sources
from trace_platform.state.events import NewEvent
from trace_platform.state.sources import Hook

log = structlog.get_logger()

MAX_ID = 256
# Compared with when there is no key: how long a refusal takes does not tell that there is none.
_NOBODY = random.token_bytes(32)
_TRIES = 5
# Others are no names of ours, whatever they look like in a URL.
_NAME = re.compile(r"[a-z0-9_]{1,128}")


@dataclass(frozen=True, slots=True)
class Delivery:
    """What was posted, as it came."""

    dag_name: str
    job_name: str
    webhook_id: str
    timestamp: str
    signatures: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Receiving:
    """What receiving needs."""

    state: Database
    store: ObjectStore
    bucket: str
    org_id: UUID
    # The value behind a secret's name, or None.
    secret: Callable[[str], str | None] = field(repr=False)


async def receive_hook(services: Receiving, delivery: Delivery) -> bool:
    """Whether it is new: the same webhook-id again changes nothing. Raise Unauthenticated unless
    it is signed with the source's secret, JobOnHold while the source is paused."""
    for _ in range(_TRIES):
        hook, now = await _authenticated(services, delivery)
        _check_body(delivery)
        place = delivery_prefix(
            services.bucket,
            services.org_id,
            hook.dataset_uuid,
            hook.dataset_version,
            delivery.webhook_id,
        )
        if await _was_delivered(services, place, delivery):
            return False
        committed = await _commit(services, hook, delivery, place, now)
        if committed is not None:
            return committed
    raise Unavailable("the source changes at this moment", hint="deliver it again")


async def _authenticated(services: Receiving, delivery: Delivery) -> tuple[Hook, datetime]:
    """The source that the delivery is for, once it is known to be from whom it says, and when."""
    async with services.state.transaction() as tx:
        hook = await _find(tx, services, delivery)
        now = await sources.now(tx)
    reason, key = _key(services, hook)
    try:
        verify(
            key,
            delivery.webhook_id,
            delivery.timestamp,
            delivery.signatures,
            delivery.body,
            now.timestamp(),
        )
    except SignatureRefused as error:
        reason = reason or str(error)
    if reason is not None or hook is None:
        log.warning("hook_refused", source=_shown(delivery), reason=reason)
        raise Unauthenticated("the delivery is not signed for this address")
    return hook, now


def _key(services: Receiving, hook: Hook | None) -> tuple[str | None, bytes]:
    """Why there is no key, and the key to compare with."""
    if hook is None:
        return "there is no such source", _NOBODY
    if hook.kind != "webhook" or hook.secret is None:
        return f"it is a source of kind {hook.kind}", _NOBODY
    value = services.secret(hook.secret)
    if value is None:
        cure = f"trace secrets set {hook.secret}"
        return f"'{hook.secret}', which it names, is not set: {cure}", _NOBODY
    try:
        return None, signing_key(value)
    except SignatureRefused as error:
        return f"'{hook.secret}', which it names, is of no use: {error}", _NOBODY


async def _find(tx: Tx, services: Receiving, delivery: Delivery) -> Hook | None:
    if not _could_be(delivery):
        return None
    return await sources.hook(tx, services.org_id, delivery.dag_name, delivery.job_name)


def _could_be(delivery: Delivery) -> bool:
    return bool(_NAME.fullmatch(delivery.dag_name) and _NAME.fullmatch(delivery.job_name))


def _shown(delivery: Delivery) -> str | None:
    """Anybody can ask for any name, of any length: the log has those that a source could have."""
    return f"{delivery.dag_name}.{delivery.job_name}" if _could_be(delivery) else None


def _check_body(delivery: Delivery) -> None:
    if len(delivery.webhook_id) > MAX_ID:
        raise BadInput(f"webhook-id is longer than {MAX_ID} characters")
    try:
        msgspec.json.decode(delivery.body, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"the body is not a JSON object: {error}") from None


def _as_parquet(delivery: Delivery, received_at: datetime) -> bytes:
    """One row, its body as it was written: numbers of any size stay what they are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = pa.table(
        {
            "webhook_id": pa.array([delivery.webhook_id], pa.string()),
            "received_at": pa.array([received_at], pa.timestamp("us", tz="UTC")),
            "body": pa.array([delivery.body.decode()], pa.string()),
        }
    )
    file = io.BytesIO()
    pq.write_table(row, file, compression="zstd")
    return file.getvalue()


async def _was_delivered(services: Receiving, place: str, delivery: Delivery) -> bool:
    """By its place: the keys of deliveries were once their ids."""
    async with services.state.transaction() as tx:
        await refuse_held(tx, services.org_id, delivery.dag_name, delivery.job_name)
        return await datasets.is_held_at(tx, place)


async def _commit(
    services: Receiving, hook: Hook, delivery: Delivery, place: str, now: datetime
) -> bool | None:
    """None when another version became active meanwhile: the file belongs there."""
    key = delivery_key(delivery.webhook_id)
    row = await asyncio.to_thread(_as_parquet, delivery, now)
    digest = hashlib.sha256(row).hexdigest()
    # A name of its own: two that share an id never write the same file, and one that was left by
    # who never committed it can be deleted.
    file = {"name": f"{uuid4().hex}.parquet", "bytes": len(row), "rows": 1, "sha256": digest}
    await asyncio.to_thread(services.store.put, f"{place}{file['name']}", row)
    async with services.state.transaction() as tx:
        await locks.share_routing(tx)
        if await _find(tx, services, delivery) != hook:
            return None
        partition_id = await datasets.commit_delivery(
            tx, hook.dataset_uuid, hook.dataset_version, key, place, file
        )
        if partition_id is None:
            return False
        event = NewEvent(
            org_id=services.org_id,
            dataset_uuid=hook.dataset_uuid,
            dataset_version=hook.dataset_version,
            partition_key=key,
            materialisation=partition_id,
        )
        await events.record(tx, [event])
        return True
