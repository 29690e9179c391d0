"""What a running instance needs besides its processes: databases that answer, a Spark master."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import psycopg

from trace_platform.app.api_client.service_client import get_soon
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.settings import Settings, load_settings
from trace_platform.app.supervise.status import InstanceStatus
from trace_platform.domain.errors import TraceError, Unavailable
from trace_platform.operators.spark.master import is_local, reach_master
from trace_platform.wire.control import Alive

# Who looks at a status does not wait for long.
_ANSWER_S = 3


@dataclass(frozen=True, slots=True)
class Need:
    """`trouble`: why it is not there; None: it is."""

    name: str
    trouble: str | None


def look_at_needs(home: Home, found: InstanceStatus) -> list[Need]:
    """Of an instance that runs. Local Spark and the embedded Postgres are processes of it."""
    if not found.runs or found.stopping:
        return []
    try:
        settings = load_settings(home)
    except TraceError as error:
        # The processes run on with what was right when they started.
        return [Need("settings", error.message)]
    return [*_databases(home, settings, found), *_spark(settings, found)]


def _databases(home: Home, settings: Settings, found: InstanceStatus) -> Iterator[Need]:
    given = {"state": settings.postgres.state_dsn, "data": settings.postgres.data_dsn}
    for name, dsn in given.items():
        if dsn is not None:
            yield _need(f"postgres ({name})", partial(_connect, dsn))
    if any(each.name == "dispatcher" and each.state == "ready" for each in found.processes):
        # It may know another database than these settings: whoever started it gave it.
        yield _need("dispatcher", lambda: get_soon(home, Alive, "/healthz", answer_s=_ANSWER_S))


def _spark(settings: Settings, found: InstanceStatus) -> Iterator[Need]:
    if not any(each.name == "worker" for each in found.processes):
        return
    master = found.spark.master if found.spark else settings.spark.master
    if not is_local(master):
        yield _need("spark master", lambda: reach_master(master, _ANSWER_S))
    if found.spark and found.spark.error:
        yield Need("spark", found.spark.error)


def _need(name: str, look: Callable[[], object]) -> Need:
    try:
        look()
    except TraceError as error:
        return Need(name, error.message)
    return Need(name, None)


def _connect(dsn: str) -> None:
    try:
        psycopg.connect(dsn, connect_timeout=_ANSWER_S).close()
    except psycopg.OperationalError as error:
        raise Unavailable(f"cannot be reached: {str(error).strip()}") from None
    except psycopg.ProgrammingError:
        # Its message repeats the DSN, password included.
        raise Unavailable("what is given is not a connection string") from None
