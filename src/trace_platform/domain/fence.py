"""The identity of one attempt, carried by everything that may end it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Fence:
    task_id: UUID
    attempt: int
    lease_token: UUID
