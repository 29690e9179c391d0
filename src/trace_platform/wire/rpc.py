"""The RPC egress: which keys a process claims, and how its pools do. Names only, never values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trace_platform.wire.task import Strict

MAX_KEYS = 1_000
KeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,200}$")]


class KeyClaimRequest(Strict):
    """Claims them, or claims them for longer. A lease of 0 gives them back."""

    holder: Annotated[str, Field(pattern=r"^[A-Za-z0-9_./:-]{1,200}$")] = Field(
        description="Name of the egress. Another process with the same name would share its keys."
    )
    keys: Annotated[list[KeyName], Field(max_length=MAX_KEYS)] = Field(
        description="Names of the keys, never their values."
    )
    lease_s: float = Field(
        ge=0,
        le=3_600,
        description="Seconds for which the keys are claimed, or claimed for longer; 0 gives "
        "them back.",
    )


class KeyClaimResponse(Strict):
    granted: list[str] = Field(
        description="Names of the keys that the holder may use until the lease ends."
    )


class ProviderStatus(Strict):
    name: str = Field(description="Name of the provider within its pool.")
    endpoint: str = Field(
        description="Scheme, host and port of the provider's URL, without what may be a key."
    )
    state: Literal[
        "ok", "limited", "down", "stalled", "runs_ahead", "contradicts", "excluded", "no_key"
    ] = Field(
        description="What the provider is asked. `ok`: everything it has. `limited`: nothing "
        "until the end of a pause that it asked for. `down`: nothing, unless nobody else can "
        "answer. `stalled`: blocks up to its head, which stands still. `runs_ahead`: old "
        "blocks only, since its head is far beyond that of the others. `contradicts`: nothing, "
        "since its blocks are not those of most. `excluded`: nothing, since it serves another "
        "chain. `no_key`: nothing, since its key is missing or used by another process."
    )
    reason: str | None = Field(
        description="Why the state is not `ok`; of a provider that is, what others are asked "
        "first for. Null when there is nothing to say."
    )
    chain_id: int | None = Field(description="The chain that it serves; null until it has said so.")
    head: int | None = Field(description="The newest block that it has told of; null until it has.")
    lag: int | None = Field(
        description="Number of blocks that it is behind the pool's head; null when one of "
        "the two is unknown."
    )
    in_flight: int = Field(description="Number of requests that are under way.")
    max_concurrency: int = Field(description="Requests that are sent to it at once, at most.")
    requests_per_second: float | None = Field(
        description="Calls per second that are sent to it at most; null is no limit."
    )
    max_batch: int | None = Field(description="Calls in one request at most; null is no limit.")
    priority: int = Field(description="Providers with a lower number are asked first.")
    requests: int = Field(description="Number of requests since the egress started.")
    failures: int = Field(description="Number of these that failed.")
    limits_hit: int = Field(
        description="Number of these that the provider refused because of a limit."
    )
    key: str | None = Field(
        description="Name of the key that it is asked with; null when it needs none."
    )


class PoolStatus(Strict):
    name: str = Field(description="Name of the pool, as DAGs write it in `rpc_pool`.")
    chain_id: int | None = Field(description="The chain of the pool; null while that is not known.")
    head: int | None = Field(
        description="The highest block that most healthy providers have; null while that is "
        "not known."
    )
    leader: str | None = Field(
        description="Name of the provider that is asked about the newest blocks; null when "
        "there is none."
    )
    providers: list[ProviderStatus] = Field(description="The providers of the pool.")


class PoolList(Strict):
    pools: list[PoolStatus] = Field(description="The pools of this egress.")
