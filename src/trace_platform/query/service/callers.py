"""Who asks, and what they may: users by their token, tasks by their capability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from trace_platform.drivers.task_token import GrantedDataset, TaskClaims
from trace_platform.wire.query import ResolvedDataset

# Stands for every dataset.
ALL = "*"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    # Names: the user sees the personal columns of the datasets that have them now.
    pii: frozenset[str] = frozenset()
    # Another with every other token and grant: what was kept for one opens to no other.
    key: str = field(default="", compare=False, repr=False)


# The user of a valid token, else None; compares in constant time.
FindUser = Callable[[str], User | None]


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    kind: Literal["user", "task"]
    timeout_s: float
    # Of one answer.
    max_bytes: int
    pii: frozenset[str]
    # Of a task: what it may read, and nothing else. None: what is published.
    grants: tuple[GrantedDataset, ...] | None = None
    key: str = ""

    @property
    def keeper(self) -> str:
        """Whose results are kept."""
        return f"{self.name}-{self.key}".replace(":", "-")

    def sees(self, dataset: ResolvedDataset) -> bool:
        """Whether the dataset's personal columns are shown: by the name that it has now, not by one
        that it was asked for by and had once."""
        return self.sees_name(dataset.published_as)

    def sees_name(self, published_as: str | None) -> bool:
        return ALL in self.pii or published_as in self.pii


@dataclass(frozen=True, slots=True)
class Allowance:
    """What callers of each kind get."""

    user_timeout_s: float = 60.0
    task_timeout_s: float = 300.0
    user_bytes: int = 256 << 20
    task_bytes: int = 4 << 30

    def user(self, user: User) -> Caller:
        return Caller(
            *(user.name, "user", self.user_timeout_s, self.user_bytes, user.pii), key=user.key
        )

    def task(self, claims: TaskClaims) -> Caller:
        """Its token grants whole datasets: nothing in them is masked for code that the platform
        vouches for, and for other code what is masked for a user without grants."""
        return Caller(
            f"task:{claims.task_id}",
            "task",
            self.task_timeout_s,
            self.task_bytes,
            frozenset({ALL} if claims.trusted else ()),
            tuple(claims.datasets),
        )
