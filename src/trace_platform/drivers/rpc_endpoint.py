"""Where the nodes of a pool are asked: the RPC egress, or a node itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs

from trace_platform.drivers.node_url import parse_url, shown
from trace_platform.drivers.secret_file import SecretFile

_AGREE = "?agree=majority"


@dataclass(frozen=True, slots=True)
class RpcEndpoint:
    """Picklable: Spark's executors get a copy, in which the token is the name of a file. The URL of
    a node may hold a key, that of the egress holds none: it is not shown."""

    url: str = field(repr=False)
    # For the egress, which asks who is there.
    token: SecretFile | None = None
    # The CA that the egress's certificate is of, as PEM.
    ca: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """What errors call it: the egress by the pool, and the provider, that it stands for."""
        url = parse_url(self.url)
        if self.token is None:
            return shown(url)
        provider = "".join(f"/{name}" for name in parse_qs(url.query).get("provider", ()))
        return f"pool {url.path.rpartition('/')[2]}{provider}"

    def agreeing(self) -> RpcEndpoint:
        """Where an answer is one that most of the pool's nodes give; -32055 when they differ.

        A node that is asked without the egress, or by its name, agrees with itself.
        """
        if self.token is None or "?" in self.url:
            return self
        return replace(self, url=self.url + _AGREE)
