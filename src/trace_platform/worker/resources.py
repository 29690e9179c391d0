"""What the attempts of one worker share: the object store, RPC pools, the warm SparkSession."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators.spark.session import SparkRuntime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Resources:
    def __init__(
        self, store: ObjectStore, rpc_pools: Mapping[str, str], spark: SparkRuntime
    ) -> None:
        self.store = store
        self._rpc_pools = rpc_pools
        self._spark = spark

    def spark(self) -> SparkSession:
        return self._spark.session()

    def spark_tag(self, tag: str) -> AbstractContextManager[None]:
        return self._spark.task_thread(tag)

    def spark_progress(self, tag: str) -> tuple[int, int]:
        return self._spark.progress(tag)

    def cancel_spark(self, tag: str) -> None:
        self._spark.cancel(tag)

    def rpc_url(self, pool: str) -> str:
        try:
            return self._rpc_pools[pool]
        except KeyError:
            known = ", ".join(sorted(self._rpc_pools)) or "none"
            raise InvalidConfig(
                f"there is no RPC pool '{pool}' (known: {known})",
                hint=f"set TRACE_RPC_{pool.upper()} or rpc_pools.{pool} in config.toml",
            ) from None
