"""Issues and checks the capability token of an attempt."""

from __future__ import annotations

import time
from uuid import UUID, uuid4

from trace_platform.domain.errors import Forbidden
from trace_platform.domain.fence import Fence
from trace_platform.drivers.token_signer import TokenSigner
from trace_platform.wire.task import TaskPayload
from trace_platform.wire.task_token import (
    AUDIENCE,
    ISSUER,
    GrantedDataset,
    TaskClaims,
    read_token,
)

GRACE_S = 300
MAX_AGE_S = 86_400


class TaskTokens:
    def __init__(self, signer: TokenSigner) -> None:
        self._signer = signer
        self.jwks = signer.jwks()

    def issue(self, org_id: UUID, task: TaskPayload) -> str:
        """Everything this attempt may touch, and nothing else; it dies soon after its time-out."""
        now = int(time.time())
        claims = TaskClaims(
            iss=ISSUER,
            aud=AUDIENCE,
            sub=str(task.task_id),
            iat=now,
            exp=now + min(int(task.timeout_seconds) + GRACE_S, MAX_AGE_S),
            jti=str(uuid4()),
            org_id=org_id,
            task_id=task.task_id,
            attempt=task.attempt,
            datasets=[
                GrantedDataset(
                    dataset_uuid=given.dataset_uuid,
                    dataset_version=given.dataset_version,
                    alias=f"input_{given.input_index}",
                    files=given.files,
                )
                for given in task.inputs
            ],
            read_prefixes=sorted({_folder(f) for given in task.inputs for f in given.files}),
            write_prefixes=[output.prefix for output in task.outputs],
        )
        return self._signer.sign(claims.model_dump(mode="json"))

    def check(self, token: str, fence: Fence) -> TaskClaims:
        """A valid token of another task or attempt is Forbidden, not merely stale."""
        claims = read_token(token, self.jwks)
        if (claims.task_id, claims.attempt) != (fence.task_id, fence.attempt):
            raise Forbidden("the capability token belongs to another attempt")
        return claims


def _folder(uri: str) -> str:
    return uri.rpartition("/")[0] + "/"
