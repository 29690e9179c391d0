"""What the attempts of one worker share: the object store, RPC pools, the warm SparkSession."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators.spark.session import SparkRuntime


@dataclass(frozen=True, slots=True)
class Resources:
    store: ObjectStore
    # URLs by pool. They may hold keys: never logged.
    rpc_pools: Mapping[str, str] = field(repr=False)
    spark: SparkRuntime

    def rpc_url(self, pool: str) -> str:
        try:
            return self.rpc_pools[pool]
        except KeyError:
            known = ", ".join(sorted(self.rpc_pools)) or "none"
            raise InvalidConfig(
                f"there is no RPC pool '{pool}' (known: {known})",
                hint=f"set TRACE_RPC_{pool.upper()} or rpc_pools.{pool} in config.toml",
            ) from None
