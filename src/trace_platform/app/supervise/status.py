"""How an instance is doing, read from its home."""

from __future__ import annotations

import time
from dataclasses import dataclass

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import read_ports
from trace_platform.app.supervise.process_record import ProcessRecord, read_records
from trace_platform.app.supervise.ready import is_ready
from trace_platform.app.supervise.served import ServedProcess, read_served
from trace_platform.app.supervise.supervisor import is_stopping, supervisor_pid
from trace_platform.operators.spark.session_record import SessionRecord, read_session_record


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """`state`: ready, starting, restarting (dead, the supervisor is at it), stopping and stopped
    when that ends the instance; left over or dead when no supervisor runs.

    `by`: who keeps it running: `trace up`, or a supervisor of its own.
    """

    name: str
    state: str
    pid: int | None
    port: int | None
    uptime_s: float | None
    restarts: int
    by: str


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    supervisor: int | None
    processes: list[ProcessStatus]
    # Of the worker, once it has started Spark, or failed to.
    spark: SessionRecord | None = None
    # The supervisor ends it.
    stopping: bool = False

    @property
    def runs(self) -> bool:
        return bool(self.supervisor) or any(each.by == OWN for each in self.processes)

    @property
    def ready(self) -> bool:
        return self.runs and all(each.state == "ready" for each in self.processes)


UP, OWN = "trace up", "its own"


def instance_status(home: Home) -> InstanceStatus:
    supervisor = supervisor_pid(home)
    stopping = supervisor is not None and is_stopping(home)
    ports = read_ports(home)
    found = [_status(home, each, supervisor, stopping, ports) for each in read_records(home)]
    found += [_served(each, ports) for each in read_served(home)]
    status = InstanceStatus(supervisor, found, stopping=stopping)
    spark = read_session_record(home.root / "spark") if status.runs else None
    return InstanceStatus(supervisor, found, spark, stopping)


def _status(
    home: Home,
    record: ProcessRecord,
    supervisor: int | None,
    stopping: bool,
    ports: dict[str, int],
) -> ProcessStatus:
    alive = record.alive()
    if stopping:
        state = "stopping" if alive else "stopped"
    elif supervisor:
        ready = "ready" if is_ready(home, record.name, record.pid) else "starting"
        state = ready if alive else "restarting"
    else:
        state = "left over" if alive else "dead"
    return ProcessStatus(
        name=record.name,
        state=state,
        pid=record.pid if alive else None,
        port=ports.get(record.name),
        uptime_s=time.time() - record.started_at if alive else None,
        restarts=record.restarts,
        by=UP,
    )


def _served(process: ServedProcess, ports: dict[str, int]) -> ProcessStatus:
    alive = process.alive()
    ready = "ready" if process.is_ready else "starting"
    return ProcessStatus(
        name=process.name,
        state=ready if alive else "dead",
        pid=process.pid if alive else None,
        port=ports.get(process.name),
        uptime_s=time.time() - process.started_at if alive else None,
        restarts=0,
        by=OWN,
    )
