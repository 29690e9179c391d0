"""Pools of nodes that a DAG names and the instance does not have."""

from __future__ import annotations

from collections.abc import Iterator

from trace_platform.app.api_client.service_client import get_soon
from trace_platform.app.instance.home import Home
from trace_platform.dag.check.names import Problem
from trace_platform.dag.model.dag import Dag
from trace_platform.dag.read.dag_yaml import DagErrors, error_at, read_dag
from trace_platform.domain.alike import instead
from trace_platform.domain.errors import TraceError
from trace_platform.wire.rpc import PoolList

_FIELD = "rpc_pool"
_ANSWER_S = 3.0


def unknown_pools(home: Home, yaml: str, file: str) -> list[str]:
    """One warning each, of a file without errors. The egress alone knows the pools: it is deployed
    all the same, as they may come with its next start."""
    if _FIELD not in yaml:
        return []
    try:
        found = get_soon(home, PoolList, "/v1/pools", "rpc", answer_s=_ANSWER_S)
        dag, root = read_dag(yaml)
    except (TraceError, DagErrors):
        return []  # who knows is away, or is about to say what is wrong
    known = sorted(pool.name for pool in found.pools)
    return [error_at(root, *each).at(file, "warning") for each in _unknown(dag, known)]


def _unknown(dag: Dag, known: list[str]) -> Iterator[Problem]:
    for index, job in enumerate(dag.jobs):
        name = (job.config or {}).get(_FIELD)
        if isinstance(name, str) and name not in known:
            said = f"no pool has this name here; {instead(name, known, 5)}"
            cure = f"set TRACE_RPC_{name.upper()} or rpc_pools.{name} in config.toml, and restart"
            yield ("jobs", index, "config", _FIELD), f"{said}; {cure}"
