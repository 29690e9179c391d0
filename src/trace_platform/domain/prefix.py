"""Canonical object prefixes. One that is not canonical is refused, never repaired."""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

from trace_platform.domain.errors import InvalidPrefix

_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_SEGMENT = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_.=-]*")


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


def generation_prefix(
    bucket: str, org_id: UUID, dataset_uuid: UUID | str, version: UUID | str
) -> str:
    """Where everything of one generation of a dataset lies."""
    return canonical_prefix(f"s3://{bucket}/org/{org_id}/dataset/{dataset_uuid}/version/{version}/")


def attempt_prefix(
    bucket: str,
    org_id: UUID,
    dataset_uuid: UUID | str,
    version: UUID | str,
    task_id: UUID,
    attempt: int,
) -> str:
    """Where one attempt stages one output, and where it stays when it is committed."""
    place = generation_prefix(bucket, org_id, dataset_uuid, version)
    return canonical_prefix(f"{place}{task_id}/{attempt}/")


def delivery_prefix(
    bucket: str, org_id: UUID, dataset_uuid: UUID, version: UUID, webhook_id: str
) -> str:
    """Where one delivery of a webhook lies: a folder of its own, so that who may read one delivery
    may not read the others."""
    named = hashlib.sha256(webhook_id.encode()).hexdigest()
    return canonical_prefix(
        f"s3://{bucket}/org/{org_id}/dataset/{dataset_uuid}/version/{version}/hooks/{named}/"
    )


def scratch_prefix(bucket: str, dataset_uuid: UUID, task_id: UUID, attempt: int) -> str:
    """Where one attempt puts batches for a buffered dataset."""
    return canonical_prefix(f"s3://{bucket}/buffers/{dataset_uuid}/{task_id}/{attempt}/")


def log_uri(bucket: str, org_id: UUID, task_id: UUID, attempt: int) -> str:
    """Where the lines of one attempt are kept."""
    return f"s3://{bucket}/org/{org_id}/logs/{task_id}/{attempt}.jsonl"
