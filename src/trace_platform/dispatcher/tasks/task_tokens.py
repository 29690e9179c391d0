"""Issues and checks the capability token of an attempt."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from trace_platform.domain.errors import Forbidden
from trace_platform.domain.fence import Fence
from trace_platform.drivers.task_token import AUDIENCE, ISSUER, TaskClaims, TokenVerifier
from trace_platform.drivers.token_signer import MAX_TOKEN_AGE_S, TokenSigner
from trace_platform.wire.task import TaskInput, TaskPayload

GRACE_S = 300


class TaskTokens:
    def __init__(self, signer: TokenSigner) -> None:
        self._signer = signer
        # The signer is at hand: no wait between two looks, so that no stranger's token can keep us
        # from seeing a key that another dispatcher just rotated.
        self._verifier = TokenVerifier(signer.jwks, refetch_s=0)

    @property
    def jwks(self) -> dict[str, Any]:
        """The public keys of now: rotation changes them."""
        return self._signer.jwks()

    def rotate(self) -> str:
        """Sign with a new key from now on; the tokens that are out stay valid."""
        return self._signer.rotate()

    def issue(
        self,
        org_id: UUID,
        task: TaskPayload,
        scratch_prefixes: Sequence[str] = (),
        *,
        trusted: bool = False,
    ) -> str:
        """Everything this attempt may touch, and nothing else; it dies soon after its time-out."""
        return self._signer.sign(_claims(org_id, task, scratch_prefixes, trusted=trusted))

    def read(self, token: str) -> TaskClaims:
        """What a valid token grants; Unauthenticated for anything else."""
        return self._verifier.read(token)


def refuse_others(claims: TaskClaims, fence: Fence) -> None:
    """A valid token of another task or attempt is Forbidden, not merely stale."""
    if (claims.task_id, claims.attempt) != (fence.task_id, fence.attempt):
        raise Forbidden("the capability token belongs to another attempt")


def _claims(
    org_id: UUID, task: TaskPayload, scratch_prefixes: Sequence[str], *, trusted: bool
) -> dict[str, Any]:
    """TaskClaims as JSON. Built by hand, because every claim waits for it."""
    now = int(time.time())
    task_id = str(task.task_id)
    return {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": task_id,
        "iat": now,
        "exp": now + min(int(task.timeout_seconds) + GRACE_S, MAX_TOKEN_AGE_S),
        "jti": str(uuid4()),
        "org_id": str(org_id),
        "task_id": task_id,
        "attempt": task.attempt,
        "datasets": _granted(task.inputs),
        "read_prefixes": sorted(
            {place for given in task.inputs for place in _places(given)}
            | {_folder(uri) for output in task.outputs for uri in output.files}
        ),
        "write_prefixes": [output.prefix for output in task.outputs],
        "scratch_prefixes": list(scratch_prefixes),
        "trusted": trusted,
    }


def _granted(inputs: Sequence[TaskInput]) -> list[dict[str, Any]]:
    """Each dataset once, however many of its updates the task is about."""
    granted: dict[tuple[int, UUID, UUID], dict[str, Any]] = {}
    for given in inputs:
        key = (given.input_index, given.dataset_uuid, given.dataset_version)
        if key not in granted:
            granted[key] = {
                "dataset_uuid": str(given.dataset_uuid),
                "dataset_version": str(given.dataset_version),
                "alias": f"input_{given.input_index}",
                "files": [],
                # Rows leave a table for files at any time.
                "whole": given.table or _reads_all(given),
                "filter": given.where,
            }
        if not _reads_all(given):
            granted[key]["files"] += given.files
    for grant in granted.values():
        # Ranges that overlap have files in common: their rows are there once.
        grant["files"] = list(dict.fromkeys(grant["files"]))
    return list(granted.values())


def _places(given: TaskInput) -> set[str]:
    folders = {_folder(uri) for uri in given.files}
    # A folder of a generation's is TASK/ATTEMPT/: two levels up it is the generation's own.
    return {_folder(_folder(f[:-1])[:-1]) for f in folders} if _reads_all(given) else folders


def _reads_all(given: TaskInput) -> bool:
    """All of a dataset: its files would not fit a token, its place does."""
    return given.whole or (not given.trigger and given.start is None)


def _folder(uri: str) -> str:
    return uri.rpartition("/")[0] + "/"
