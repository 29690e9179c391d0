"""What the attempts of one worker share: the object store, RPC pools, Postgres data, the query
service, the warm SparkSession."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from trace_platform.data.database import DataDatabase
from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.query_endpoint import QueryEndpoint
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.spark.session import SparkRuntime


@dataclass(frozen=True, slots=True)
class Resources:
    store: ObjectStore
    # By pool; raises InvalidConfig for one that there is not.
    rpc: Callable[[str], RpcEndpoint]
    spark: SparkRuntime
    data: DataDatabase | None = field(default=None)
    # By an attempt's capability token.
    query: Callable[[str], QueryEndpoint] | None = field(default=None)

    def data_database(self) -> DataDatabase:
        if self.data is None:
            raise InvalidConfig("this worker has no Postgres data")
        return self.data

    def query_endpoint(self, capability_token: str) -> QueryEndpoint:
        if self.query is None:
            raise InvalidConfig("this worker has no query service")
        return self.query(capability_token)
