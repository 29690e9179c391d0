"""`python -m tests.support.killable_process HOME`: a dispatcher that ends itself by SIGKILL at the
step that HOME/kill_at names, and a parent that starts another in its place, as a supervisor would.

A step is `VERB/FILE.STATEMENT#N:MOMENT`: of this verb's call the Nth time that this named statement
runs, `before` it or `after` it. Transactions that end are `commit`, `after` only; wake-ups are
`queue.send`. The steps that happen are appended to HOME/steps.

The parent has imported everything and forks: another dispatcher is there in a fraction of a second.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from trace_platform.drivers.postgres import database, queries


@dataclass
class Call:
    """One call of a verb, and how often each of its statements ran."""

    verb: str
    counts: bool
    ran: Counter[str] = field(default_factory=Counter)


_call: ContextVar[Call | None] = ContextVar("call", default=None)


class Steps:
    def __init__(self, home: Path) -> None:
        self._kill_at = home / "kill_at"
        self._log = os.open(home / "steps", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        # Of verbs that run all the time, calls count once a version is being built.
        self.underway = False

    async def run(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        call = _call.get()
        if call is None or not call.counts:
            return await work()
        call.ran[name] += 1
        step = f"{call.verb}/{name}#{call.ran[name]}"
        self._reach(f"{step}:before")
        found = await work()
        self._reach(f"{step}:after")
        return found

    def note_underway(self, underway: bool) -> None:
        self.underway = underway
        call = _call.get()
        if call is not None and underway:
            call.counts = True

    def _reach(self, step: str) -> None:
        os.write(self._log, f"{step}\n".encode())
        try:
            asked = self._kill_at.read_text()
        except FileNotFoundError:
            return
        if asked == step:
            self._kill_at.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    def patch_queries(self) -> None:
        steps, plain = self, queries.Queries.__getattr__

        def load(module_file: str) -> queries.Queries:
            made = queries.Queries(Path(module_file).with_suffix(".sql"))
            made.__dict__["_name"] = Path(module_file).stem
            return made

        def find(self: queries.Queries, name: str) -> queries.Query:
            query, of = plain(self, name), self.__dict__.get("_name")

            async def run(*args: Any, **parameters: Any) -> Any:
                found = await steps.run(f"{of}.{name}", lambda: query(*args, **parameters))
                if (of, name) in (("deploys", "begin"), ("deploys", "building")):
                    steps.note_underway(bool(found))
                return found

            return run

        queries.load_queries = load
        queries.Queries.__getattr__ = find  # type: ignore[method-assign]

    def patch_transactions(self) -> None:
        steps, plain = self, database.Database.transaction

        @asynccontextmanager
        async def transaction(self: database.Database) -> AsyncIterator[queries.Tx]:
            async with plain(self) as tx:
                yield tx
            await steps.run("commit", _nothing)

        database.Database.transaction = transaction  # type: ignore[method-assign]

    def patch_verb(self, module: ModuleType, name: str, verb: str, always: bool) -> None:
        plain = getattr(module, name)

        async def run(*args: Any, **parameters: Any) -> Any:
            token = _call.set(Call(verb, always or self.underway))
            try:
                return await plain(*args, **parameters)
            finally:
                _call.reset(token)

        setattr(module, name, run)


async def _nothing() -> None:
    pass


def _prepare(home: Path) -> None:
    """The names that loops and routes call are those of the modules that they are in."""
    steps = Steps(home)
    steps.patch_queries()
    steps.patch_transactions()

    from trace_platform.dispatcher import run_loops
    from trace_platform.dispatcher.api import dags
    from trace_platform.dispatcher.tasks import batches
    from trace_platform.drivers import http_invoker  # noqa: F401
    from trace_platform.drivers.lite import pem_signer, pgqueue  # noqa: F401
    from trace_platform.operators import registry

    registry.OPERATORS["lineage"] = "tests.support.lineage_operator.Lineage"
    registry.OPERATORS["gather"] = "tests.support.gather_operator.Gather"
    registry.load("lineage")
    send = pgqueue.PgQueueSender.send

    async def send_as_step(self: Any, *args: Any) -> None:
        await steps.run("queue.send", lambda: send(self, *args))

    pgqueue.PgQueueSender.send = send_as_step  # type: ignore[assignment, method-assign]
    steps.patch_verb(dags, "deploy_dag", "deploy", always=True)
    steps.patch_verb(dags, "roll_back", "rollback", always=True)
    steps.patch_verb(run_loops, "advance_deploys", "advance", always=False)
    steps.patch_verb(run_loops, "publish_outbox", "publish", always=False)
    steps.patch_verb(batches, "claim_tasks", "claim", always=False)
    steps.patch_verb(batches, "complete_tasks", "complete", always=False)


def _end_with_test() -> None:
    os.read(0, 1)
    os._exit(1)


def _child(home: Path) -> int:
    child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    from trace_platform.app import processes
    from trace_platform.app.instance.home import Home

    code = 1
    try:
        threading.Thread(target=_end_with_test, daemon=True).start()
        processes.run("dispatcher", Home(home))
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
