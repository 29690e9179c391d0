"""Routing, operators and calls run by hand, one after the other, on a real database."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.tasks.invoke_task import Calls, Invoking
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.run_direct import Direct, run_direct
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.domain.runtimes import DEFAULT_RUNTIMES, Runtime, Runtimes
from trace_platform.drivers.invoker import Invoker
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.task import Invocation


@dataclass
class Driven:
    """A control plane, and what its loops would do."""

    plane: ControlPlane
    runtimes: Runtimes
    invoker: Invoker

    def direct(self, together: int = 100, **limits: Any) -> Direct:
        dispatcher = self.plane.dispatcher
        return Direct(
            dispatcher.state,
            dispatcher.completing,
            self.runtimes,
            self.plane.publishing().sent,
            Calls(
                Invoking(dispatcher.state, dispatcher.grants, dispatcher.completing, self.invoker),
                **limits,
            ),
            dispatcher.metrics.tasks_started,
            together,
        )

    async def deploy(self, yaml: str) -> None:
        dispatcher = self.plane.dispatcher
        await deploy_dag(dispatcher.state, dispatcher.org_id, yaml, "dag.yaml", self.runtimes)

    async def emit(self, job: str, *events: Any) -> None:
        """Cursors as numbers, partitions as (start, end) or a name."""
        request = EmitRequest(dataset=f"fan.{job}", events=[_scope(each) for each in events])
        await emit_events(self.plane.dispatcher.state, self.plane.dispatcher.org_id, request)

    async def settle(self, direct: Direct | None = None) -> None:
        """Route, run and call until nothing is left to do."""
        direct = direct or self.direct()
        found = True
        while found:
            await self.plane.settle()
            found = bool(await run_direct(direct))
            await direct.calls.finish()

    async def retry_now(self) -> None:
        self.plane.sql(
            "UPDATE tasks SET next_retry_at = clock_timestamp() WHERE next_retry_at IS NOT NULL"
        )
        await requeue_failed(self.plane.dispatcher.state)

    async def lose_leases(self) -> int:
        """Let every attempt that runs be reaped and its task be queued again."""
        self.plane.sql(
            "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'"
            " WHERE status = 'Running'"
        )
        reaped = await reap_leases(self.plane.dispatcher.state)
        await requeue_failed(self.plane.dispatcher.state)
        return len(reaped)

    def events(self, job: str, output: int = 0) -> list[str]:
        """The keys that an output emitted, in order."""
        rows = self.plane.sql(
            "SELECT coalesce(e.partition_key, e.cursor::text) AS key FROM events e"
            " JOIN datasets d ON d.uuid = e.dataset_uuid"
            " WHERE d.job_name = %s AND d.output_index = %s ORDER BY e.id",
            job,
            output,
        )
        return [row["key"] for row in rows]

    def tasks(self, job: str) -> list[dict[str, Any]]:
        return self.plane.sql(
            "SELECT t.* FROM tasks t JOIN jobs j ON j.id = t.job_id"
            " WHERE j.name = %s ORDER BY t.id",
            job,
        )

    def statuses(self, job: str) -> list[str]:
        return [task["status"] for task in self.tasks(job)]

    def correlations(self) -> list[tuple[list[int], str | None]]:
        rows = self.plane.sql("SELECT arrived, outcome FROM correlations ORDER BY first_at")
        return [(row["arrived"], row["outcome"]) for row in rows]

    def is_anyone_waiting(self) -> bool:
        """For a lock of another transaction."""
        return bool(self.plane.sql("SELECT pid FROM pg_locks WHERE NOT granted"))

    def time_out(self) -> None:
        self.plane.sql(
            "UPDATE correlations SET expires_at = clock_timestamp() - interval '1 s'"
            " WHERE expires_at IS NOT NULL"
        )


def _scope(given: Any) -> dict[str, Any]:
    if isinstance(given, int):
        return {"cursor": given}
    if isinstance(given, str):
        return {"partition_key": given}
    start, end = given
    return {"partition_key": f"{start}-{end}", "start": start, "end": end}


class Nobody:
    async def invoke(self, runtime: Runtime, payload: Invocation) -> None:
        raise AssertionError("no function here")

    async def close(self) -> None:
        pass


def with_lambda(url: str | None, **others: str) -> Runtimes:
    ours = {runtime.name: runtime for runtime in DEFAULT_RUNTIMES}
    made = [replace(ours["lambda"], name=name, url=u) for name, u in others.items()]
    return Runtimes([*(ours | {"lambda": replace(ours["lambda"], url=url)}).values(), *made])
