"""How an instance is doing, read from its home."""

from __future__ import annotations

import time
from dataclasses import dataclass

from trace_platform.app.home import Home
from trace_platform.app.instance import read_ports
from trace_platform.app.process_record import ProcessRecord, read_records
from trace_platform.app.ready import is_ready
from trace_platform.app.supervisor import supervisor_pid
from trace_platform.operators.spark.session_record import SessionRecord, read_session_record


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """`state`: ready, starting, restarting (dead, the supervisor is at it), or left over or dead
    when no supervisor runs."""

    name: str
    state: str
    pid: int | None
    port: int | None
    uptime_s: float | None
    restarts: int


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    supervisor: int | None
    processes: list[ProcessStatus]
    # Of the worker, once it has started Spark, or failed to.
    spark: SessionRecord | None = None

    @property
    def ready(self) -> bool:
        return bool(self.supervisor) and all(each.state == "ready" for each in self.processes)


def instance_status(home: Home) -> InstanceStatus:
    supervisor = supervisor_pid(home)
    ports = read_ports(home)
    found = [_status(home, each, supervisor, ports) for each in read_records(home)]
    spark = read_session_record(home.root / "spark") if supervisor else None
    return InstanceStatus(supervisor, found, spark)


def _status(
    home: Home, record: ProcessRecord, supervisor: int | None, ports: dict[str, int]
) -> ProcessStatus:
    alive = record.alive()
    if supervisor:
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
    )
