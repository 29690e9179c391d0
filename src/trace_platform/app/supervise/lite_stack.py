"""The stages in which an instance on one machine starts."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper

from trace_platform.app.instance import databases
from trace_platform.app.instance.close_home import close_home, private_files
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.named_secrets import VARIABLE
from trace_platform.app.instance.open_instance import Instance, open_instance
from trace_platform.app.instance.settings import POOL_NAMES, Settings
from trace_platform.app.processes import NAMES
from trace_platform.app.supervise.log import configure_logging
from trace_platform.app.supervise.process import ProcessSpec, Report
from trace_platform.app.supervise.rotate_logs import Rotation, rotating
from trace_platform.app.supervise.supervisor import Stage, Supervisor, refuse_second
from trace_platform.drivers.lite.certificates import ensure_certificates
from trace_platform.drivers.lite.embedded_postgres import EmbeddedPostgres
from trace_platform.drivers.lite.private_file import append_private

# Only the egress talks to nodes: their URLs may hold keys.
_RPC = "TRACE_RPC_"
# Only the dispatcher checks signatures; of the egress's keys it gets those that pools name.
_SECRETS = VARIABLE


@contextmanager
def running(
    home: Home,
    settings: Settings,
    report: Report | None = None,
    extra: Sequence[ProcessSpec] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Instance]:
    """A whole instance: inside the context all of it is ready, afterwards nothing is left.

    This process becomes its supervisor, and logs as such.
    """
    refuse_second(home)
    close_home(home, settings.bucket)
    log_file = home.logs / "supervisor.jsonl"
    with (
        private_files(),
        TextIOWrapper(append_private(log_file)) as log,
        rotating(home.logs, Rotation.of(settings.logs.keep_days, settings.logs.max_mb)),
    ):
        configure_logging("supervisor", log)
        instance = open_instance(home, settings, starts=True)
        stages = lite_stages(home, settings, instance, extra=extra, env=env)
        with Supervisor(home, stages, report):
            yield instance


def lite_stages(
    home: Home,
    settings: Settings,
    instance: Instance,
    names: Sequence[str] = NAMES,
    extra: Sequence[ProcessSpec] = (),
    env: Mapping[str, str] | None = None,
) -> list[Stage]:
    """Postgres unless it is external, then its databases, then everything that needs them."""
    served = [serve_process(home, settings, instance, name, env or {}) for name in names]

    def prepare() -> None:
        # Before its clients start: they read the CA's file at once.
        ensure_certificates(home.tls)
        databases.prepare(home, settings, instance)

    stages = [Stage(then=prepare, name="databases"), Stage((*served, *extra))]
    if settings.postgres.state_dsn is None:
        server = embedded_postgres(home, instance)
        files = Stage(then=server.initialise, name="database files")
        stages = [files, Stage((_postgres_process(server),)), *stages]
    return stages


def serve_process(
    home: Home, settings: Settings, instance: Instance, name: str, env: Mapping[str, str]
) -> ProcessSpec:
    """`trace serve NAME` as a process of the supervisor, with what it needs to know and no more."""
    command = [sys.executable, "-m", "trace_platform.cli", "serve", name, "--home", str(home.root)]
    hidden = tuple(
        prefix for prefix, reader in ((_RPC, "rpc"), (_SECRETS, "dispatcher")) if name != reader
    )
    given = {key: value for key, value in env.items() if not key.startswith(hidden)}
    if name == "rpc":
        given |= _keys_of_pools(settings)
    if name == "worker":
        given[POOL_NAMES] = ",".join(sorted(settings.known_pools | _pools_in(env)))
    return ProcessSpec(
        name=name,
        command=lambda: command,
        port=instance.ports.get(name),
        env=given | databases.addresses(settings),
        hidden=hidden,
    )


def _keys_of_pools(settings: Settings) -> dict[str, str]:
    providers = (each for pool in settings.rpc_pools.values() for each in pool.providers)
    names = (VARIABLE + each.key_secret.upper() for each in providers if each.key_secret)
    return {name: os.environ[name] for name in names if name in os.environ}


def _pools_in(env: Mapping[str, str]) -> set[str]:
    return {name.removeprefix(_RPC).lower() for name in env if name.startswith(_RPC)}


def embedded_postgres(home: Home, instance: Instance) -> EmbeddedPostgres:
    password = databases.admin_password(home)
    return EmbeddedPostgres(home.postgres, instance.port("postgres"), password)


def _postgres_process(server: EmbeddedPostgres) -> ProcessSpec:
    return ProcessSpec(
        name="postgres",
        command=server.command,
        port=server.port,
        # Recovery after a crash reads the log of up to max_wal_size.
        ready_s=120.0,
        grace_s=30.0,
        # Fast shutdown: open sessions end. SIGTERM would wait for every client to leave.
        stop_signal=signal.SIGINT,
        sweep=server.clear_leftovers,
        serves=server.is_ready,
    )
