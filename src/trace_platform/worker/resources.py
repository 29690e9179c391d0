"""What the attempts of one worker share: the object store, RPC pools, Postgres data, the query
service, the warm SparkSession."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_platform.data.database import DataDatabase
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.own_code import FUNCTIONS, code_of
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.query_endpoint import QueryEndpoint
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators import registry
from trace_platform.operators.contract import Operator
from trace_platform.operators.own.load_code import CodeLoader
from trace_platform.operators.spark.session import SparkRuntime


@dataclass(frozen=True, slots=True)
class Resources:
    store: ObjectStore
    # By pool; raises InvalidConfig for one that there is not.
    rpc: Callable[[str], RpcEndpoint]
    spark: SparkRuntime
    data: DataDatabase | None = field(default=None)
    # Of code that lies beside DAG files.
    code: CodeLoader | None = field(default=None)
    # By an attempt's capability token.
    query: Callable[[str], QueryEndpoint] | None = field(default=None)
    # The value of a secret that a DAG names; None when it is not set.
    secrets: Callable[[str], str | None] = field(default=lambda _: None)

    def operator(self, name: str, config: Mapping[str, Any]) -> tuple[type[Operator], Path | None]:
        """The operator's class; of code beside a DAG also what Spark's executors need of it."""
        ref = code_of(name, config)
        if ref is None:
            return registry.load(name), None
        if self.code is None:
            raise InvalidConfig("this worker runs no code that lies beside DAG files")
        if name == FUNCTIONS:
            # Not before it is needed: it brings what reads rows along.
            from trace_platform.operators.transform.python_transform import calling

            return calling(self.code.load_function(ref)), self.code.zip_of(ref)
        return self.code.load(ref), self.code.zip_of(ref)

    def data_database(self) -> DataDatabase:
        if self.data is None:
            raise InvalidConfig("this worker has no Postgres data")
        return self.data

    def query_endpoint(self, capability_token: str) -> QueryEndpoint:
        if self.query is None:
            raise InvalidConfig("this worker has no query service")
        return self.query(capability_token)

    def secret(self, name: str) -> str:
        value = self.secrets(name)
        if value is None:
            raise InvalidConfig(
                f"the secret '{name}' has no value for workers",
                hint=f"trace secrets set {name}; variables TRACE_SECRET_... do not reach workers",
            )
        return value
