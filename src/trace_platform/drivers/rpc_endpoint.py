"""Where the nodes of a pool are asked: the RPC egress, or a node itself."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RpcEndpoint:
    """Picklable: Spark's executors get a copy. The URL may hold a key, the token is one: neither is
    shown."""

    url: str = field(repr=False)
    # For the egress, which asks who is there.
    token: str | None = field(default=None, repr=False)
    # The CA that the egress's certificate is of, as PEM.
    ca: str | None = field(default=None, repr=False)
