"""A DAG file as it would run here, or every error in it."""

from __future__ import annotations

import asyncio

from trace_platform.dag.check.check_dag import (
    BUILT_IN,
    NO_CODE,
    NOTHING_KNOWN,
    CheckedDag,
    check_file,
)
from trace_platform.dag.check.statements import Known
from trace_platform.dag.read.dag_yaml import DagErrors, invalid_dag
from trace_platform.domain.own_code import Code, refuse_too_much
from trace_platform.domain.runtimes import Runtimes


async def read_dag(
    yaml: str,
    file: str,
    runtimes: Runtimes = BUILT_IN,
    code: Code = NO_CODE,
    known: Known = NOTHING_KNOWN,
) -> CheckedDag:
    """Raise InvalidDag with every error and its line; InvalidConfig for code that is too much."""
    refuse_too_much(code.files)
    try:
        # In a thread: a large file takes a while, and heartbeats must not wait for it.
        return await asyncio.to_thread(check_file, yaml, runtimes, file, code, known)
    except DagErrors as found:
        raise invalid_dag(file, found.errors) from None
