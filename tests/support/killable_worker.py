"""`python -m tests.support.killable_worker HOME`: a worker that has something die at the point that
HOME/kill_at names (see `crash_points`), and a parent that starts another in its place. Every RPC
pool is the node whose URL is in HOME/node."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.crash_points import (
    CrashingStore,
    CrashPoints,
    crash_at_completions,
    crash_at_hot_writes,
)


def _prepare(home: Path) -> None:
    from trace_platform.app.instance import rpc_endpoints
    from trace_platform.data.hot_tables import HotWriter
    from trace_platform.drivers.lite import local_store
    from trace_platform.drivers.rpc_endpoint import RpcEndpoint
    from trace_platform.operators import registry
    from trace_platform.worker import dispatcher_client, serve  # noqa: F401

    def store(root: str) -> CrashingStore:
        return CrashingStore(root, str(home))

    def node(*_: Any) -> Callable[[str], RpcEndpoint]:
        return lambda _: RpcEndpoint((home / "node").read_text())

    local_store.LocalStore = store  # type: ignore[assignment, misc]
    rpc_endpoints.rpc_endpoints = node
    client = dispatcher_client.DispatcherClient
    crash_at_completions(client, CrashPoints(home))
    crash_at_hot_writes(HotWriter, client, CrashPoints(home))
    registry.OPERATORS["lineage"] = "tests.support.lineage_operator.Lineage"
    registry.load("lineage")


def _child(home: Path) -> int:
    child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    from trace_platform.app import processes
    from trace_platform.app.instance.home import Home

    code = 1
    try:
        processes.run("worker", Home(home))
        code = 0
    finally:
        os._exit(code)


def _supervise(home: Path) -> int:
    """Until it is told to stop, nobody holds our standard input any more, or a child fails."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    child = _child(home)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            child = _child(home)
        elif ended:
            return os.waitstatus_to_exitcode(status)
        if stopping:
            os.kill(child, stopping.pop())
        if select.select([0], [], [], 0.01)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return 1


if __name__ == "__main__":
    _prepare(Path(sys.argv[1]))
    sys.exit(_supervise(Path(sys.argv[1])))
