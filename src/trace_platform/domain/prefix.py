"""Where everything lies in the object store: the layout is said here, and nowhere else.

A prefix that is not canonical is refused, never repaired.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from trace_platform.domain.errors import InvalidPrefix

_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_SEGMENT = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_.=-]*")
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ATTEMPT = r"[1-9][0-9]{0,8}"
# What else than a uuid may stand in a layout.
_TEXTS = {"bucket": _BUCKET.pattern, "digest": "[0-9a-f]{64}"}

_GENERATION = "s3://{bucket}/org/{org_id}/dataset/{dataset_uuid}/version/{version}/"


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where the attempts of one task stage one output, each in a folder of its own."""

    layout: ClassVar = _GENERATION + "{task_id}/"
    bucket: str
    org_id: UUID
    dataset_uuid: UUID
    version: UUID
    task_id: UUID


@dataclass(frozen=True, slots=True)
class DeliveryPlace:
    """Where one delivery of a webhook lies: a folder of its own, so that who may read one delivery
    may not read the others."""

    layout: ClassVar = _GENERATION + "hooks/{digest}/"
    bucket: str
    org_id: UUID
    dataset_uuid: UUID
    version: UUID
    digest: str


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where the lines of one task are kept, in a file for each attempt."""

    layout: ClassVar = "s3://{bucket}/org/{org_id}/logs/{task_id}/"
    bucket: str
    org_id: UUID
    task_id: UUID


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Where one task puts batches for a buffered dataset, in a folder for each attempt."""

    layout: ClassVar = "s3://{bucket}/buffers/{dataset_uuid}/{task_id}/"
    bucket: str
    dataset_uuid: UUID
    task_id: UUID


Place = TaskPlace | DeliveryPlace | LogPlace | BatchPlace
PLACES: tuple[type[Place], ...] = (TaskPlace, DeliveryPlace, LogPlace, BatchPlace)


def _reader(layout: str) -> re.Pattern[str]:
    return re.compile(
        re.sub(r"\{(\w+)\}", lambda name: f"(?P<{name[1]}>{_TEXTS.get(name[1], _UUID)})", layout)
    )


_READERS = {kind: _reader(kind.layout) for kind in PLACES}


def parse_uri(uri: str) -> tuple[str, str]:
    """Split `s3://bucket/key` into bucket and key; raise InvalidPrefix for anything unusual."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    segments = key.removesuffix("/").split("/")
    if scheme != "s3" or not _BUCKET.fullmatch(bucket):
        raise InvalidPrefix(f"{uri!r} does not name a bucket as s3://bucket/key")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise InvalidPrefix(
            f"{uri!r} is not canonical", hint="letters, digits, '_', '-', '.', '=' in each segment"
        )
    return bucket, key


def canonical_prefix(uri: str) -> str:
    """The prefix itself when it is canonical and ends in a slash."""
    parse_uri(uri)
    if not uri.endswith("/"):
        raise InvalidPrefix(f"{uri!r} is not a prefix", hint="a prefix ends in '/'")
    return uri


def place_of(uri: str) -> Place | None:
    """What a folder is for; None when it is no place of ours."""
    for kind, reader in _READERS.items():
        if found := reader.fullmatch(uri):
            told = found.groupdict().items()
            fields: dict[str, Any] = {k: v if k in _TEXTS else UUID(v) for k, v in told}
            return kind(**fields)
    return None


def attempt_of(place: Place, name: str) -> int | None:
    """The attempt whose file it is, by its name in the place; None when it is no attempt's."""
    match place:
        case TaskPlace() | BatchPlace():
            found = re.match(rf"({_ATTEMPT})/", name)
        case LogPlace():
            found = re.fullmatch(rf"({_ATTEMPT})\.jsonl", name)
        case DeliveryPlace():
            found = None
    return int(found[1]) if found else None


def generation_prefix(
    bucket: str, org_id: UUID, dataset_uuid: UUID | str, version: UUID | str
) -> str:
    """Where everything of one generation of a dataset lies."""
    return canonical_prefix(
        _GENERATION.format(bucket=bucket, org_id=org_id, dataset_uuid=dataset_uuid, version=version)
    )


def attempt_prefix(
    bucket: str,
    org_id: UUID,
    dataset_uuid: UUID | str,
    version: UUID | str,
    task_id: UUID,
    attempt: int,
) -> str:
    """Where one attempt stages one output, and where it stays when it is committed."""
    place = TaskPlace.layout.format(
        bucket=bucket, org_id=org_id, dataset_uuid=dataset_uuid, version=version, task_id=task_id
    )
    return canonical_prefix(f"{place}{attempt}/")


def delivery_prefix(
    bucket: str, org_id: UUID, dataset_uuid: UUID, version: UUID, webhook_id: str
) -> str:
    return canonical_prefix(
        DeliveryPlace.layout.format(
            bucket=bucket,
            org_id=org_id,
            dataset_uuid=dataset_uuid,
            version=version,
            digest=delivery_key(webhook_id),
        )
    )


def delivery_key(webhook_id: str) -> str:
    """What a delivery is called wherever it is listed. Its id is the sender's word, and may tell
    about a person."""
    return hashlib.sha256(webhook_id.encode()).hexdigest()


def scratch_prefix(bucket: str, dataset_uuid: UUID, task_id: UUID, attempt: int) -> str:
    """Where one attempt puts batches for a buffered dataset."""
    place = BatchPlace.layout.format(bucket=bucket, dataset_uuid=dataset_uuid, task_id=task_id)
    return canonical_prefix(f"{place}{attempt}/")


def log_uri(bucket: str, org_id: UUID, task_id: UUID, attempt: int) -> str:
    """Where the lines of one attempt are kept."""
    place = LogPlace.layout.format(bucket=bucket, org_id=org_id, task_id=task_id)
    return f"{place}{attempt}.jsonl"
