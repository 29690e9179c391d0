"""A DAG file as it would run here, or every error in it."""

from __future__ import annotations

import asyncio

from trace_platform.dispatcher.check_dag import BUILT_IN, check_dag
from trace_platform.domain.runtimes import Runtimes
from trace_platform.wire.dag import Dag
from trace_platform.wire.dag_yaml import DagErrors, invalid_dag


async def read_dag(yaml: str, file: str, runtimes: Runtimes = BUILT_IN) -> Dag:
    """Raise InvalidDag with every error and its line."""
    try:
        # In a thread: a large file takes a while, and heartbeats must not wait for it.
        return await asyncio.to_thread(check_dag, yaml, runtimes)
    except DagErrors as found:
        raise invalid_dag(file, found.errors) from None
