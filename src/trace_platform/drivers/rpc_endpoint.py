"""Where the nodes of a pool are asked: the RPC egress, or a node itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

_AGREE = "?agree=majority"


@dataclass(frozen=True, slots=True)
class RpcEndpoint:
    """Picklable: Spark's executors get a copy. The URL may hold a key, the token is one: neither is
    shown."""

    url: str = field(repr=False)
    # For the egress, which asks who is there.
    token: str | None = field(default=None, repr=False)
    # The CA that the egress's certificate is of, as PEM.
    ca: str | None = field(default=None, repr=False)

    def agreeing(self) -> RpcEndpoint:
        """Where an answer is one that most of the pool's nodes give; -32055 when they differ.

        A node that is asked without the egress, or by its name, agrees with itself.
        """
        if self.token is None or "?" in self.url:
            return self
        return replace(self, url=self.url + _AGREE)
