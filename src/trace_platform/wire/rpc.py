"""The RPC egress: which keys a process claims, and how its pools do. Names only, never values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trace_platform.wire.task import Strict

MAX_KEYS = 1_000
KeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,200}$")]


class KeyClaimRequest(Strict):
    """Claims them, or claims them for longer. A lease of 0 gives them back."""

    # Of one egress, whatever process it is now: another one with its name would share its keys.
    holder: Annotated[str, Field(pattern=r"^[A-Za-z0-9_./:-]{1,200}$")]
    keys: Annotated[list[KeyName], Field(max_length=MAX_KEYS)]
    lease_s: float = Field(ge=0, le=3_600)


class KeyClaimResponse(Strict):
    # Those that the holder may use until the lease ends.
    granted: list[str]


class ProviderStatus(Strict):
    name: str
    # scheme://host:port, without what may be a key.
    endpoint: str
    state: Literal[
        "ok", "limited", "down", "stalled", "runs_ahead", "contradicts", "excluded", "no_key"
    ]
    # Why it is not ok; of one that is, what it is not asked first for.
    reason: str | None
    chain_id: int | None
    head: int | None
    lag: int | None
    in_flight: int
    max_concurrency: int
    requests_per_second: float | None
    max_batch: int | None
    priority: int
    requests: int
    failures: int
    limits_hit: int
    # The name of the key that it is asked with, if it has one.
    key: str | None


class PoolStatus(Strict):
    name: str
    chain_id: int | None
    head: int | None
    # Who is asked about the newest blocks.
    leader: str | None
    providers: list[ProviderStatus]


class PoolList(Strict):
    pools: list[PoolStatus]
