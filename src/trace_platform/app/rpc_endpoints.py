"""Where a worker asks the nodes of each pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.rpc_endpoint import RpcEndpoint


def rpc_endpoints(pools: Mapping[str, str]) -> Callable[[str], RpcEndpoint]:
    def endpoint(pool: str) -> RpcEndpoint:
        if pool not in pools:
            known = ", ".join(sorted(pools)) or "none"
            raise InvalidConfig(
                f"there is no RPC pool '{pool}' (known: {known})",
                hint=f"set TRACE_RPC_{pool.upper()} or rpc_pools.{pool} in config.toml",
            )
        return RpcEndpoint(pools[pool])

    return endpoint
